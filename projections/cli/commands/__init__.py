"""The commands, one module each noun."""
