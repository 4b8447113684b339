"""Verification of stores, and proofs that an event is in a store's history."""
