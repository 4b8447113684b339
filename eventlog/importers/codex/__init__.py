"""Rollouts of Codex."""
