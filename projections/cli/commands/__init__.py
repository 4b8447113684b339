"""The commands: module NAME has the function `run` of the command NAME."""
