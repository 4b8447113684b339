"""Tests of reading again what the view no longer shows."""
