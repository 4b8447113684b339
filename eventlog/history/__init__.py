"""Reading what was committed."""
