"""Parts that the importers of several formats share."""
