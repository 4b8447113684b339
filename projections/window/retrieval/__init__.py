"""Reading again what the view no longer shows."""
