"""OpenAI Chat Completions and Responses: lists of messages and streams."""
