"""Transcripts: all messages with marks, page by page from the end."""
