"""Tokens: counting without a network, caching counts, calibrating by reported usage."""
