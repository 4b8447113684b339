"""Pages that follow a session: the newest messages, then patches, as JSON."""
