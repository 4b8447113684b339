"""Command state: which event may follow."""
