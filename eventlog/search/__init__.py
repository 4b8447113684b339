"""Search over all that was said: an index in a file of its own that follows the log."""
