"""Answers of providers, live or recorded, read chunk by chunk into steps."""
