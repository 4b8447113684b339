"""The view in the forms that providers and other programs take, one file per format."""
