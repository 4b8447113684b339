"""Anthropic Messages: lists of messages and streams."""
