"""All that was said, with marks, in pages."""
