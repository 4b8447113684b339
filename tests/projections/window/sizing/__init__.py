"""Tests of sizes."""
