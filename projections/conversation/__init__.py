"""The conversation: messages, parts and marks, and what each event does to them."""
