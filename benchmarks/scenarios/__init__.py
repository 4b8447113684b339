"""What a program does all day, measured beside SQLite FULL: starting, cold caches, two processes, many sessions, months of use."""
