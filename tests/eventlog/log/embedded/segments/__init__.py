"""Tests of the folded part."""
