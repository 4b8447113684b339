"""Sizes of messages and results for planners, and the breakdown of a request."""
