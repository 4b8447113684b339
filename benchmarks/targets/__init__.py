"""What the engine has to reach, as ratios in one run: a file for each of nine targets, whose figures are `target.N.…`."""
