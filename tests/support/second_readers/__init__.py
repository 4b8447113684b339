"""Second readers of histories, a format a file, written from recordings alone."""
