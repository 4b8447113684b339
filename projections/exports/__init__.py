"""Sessions as files that others read: event JSONL, Markdown, OpenCode's export; one file per format.

Not the forms that providers take (`formats/`), and not the way back (`eventlog/importers`).
"""
