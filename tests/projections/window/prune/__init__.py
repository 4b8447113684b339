"""Tests of planners of prunes."""
