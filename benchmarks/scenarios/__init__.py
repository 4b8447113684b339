"""What programs do all day, measured beside SQLite FULL: a file for each scenario."""
