"""Recorded streams of providers, as the readers of live answers read them."""
