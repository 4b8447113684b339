"""Reports on sessions: audit, view diff, timeline, statistics, usage."""
