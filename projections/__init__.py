"""What to make of it: folds, views, renderers and the tools for looking."""
