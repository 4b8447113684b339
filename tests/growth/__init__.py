"""How the cost of every public operation grows with the history behind it."""
