"""Tests of the walk through LMDB's pages."""
