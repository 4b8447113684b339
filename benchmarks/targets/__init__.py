"""Nine targets of the engine, as ratios in one run.

Each target has a file, whose figures are `target.N.…`.
"""
