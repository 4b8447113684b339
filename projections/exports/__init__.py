"""Export sessions as files: event JSONL, Markdown, OpenCode's export."""
