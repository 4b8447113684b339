"""Planners of prunes."""
