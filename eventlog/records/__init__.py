"""Records of frameworks: told to a session, kept whole, and read back."""
