"""The journal: frames appended to files, durable with one sync."""
