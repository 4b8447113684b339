"""Daily work of programs, measured beside SQLite FULL: a file for each scenario."""
