"""What the engine has to reach, as ratios in one run.

A file for each of nine targets, whose figures are `target.N.…`.
"""
