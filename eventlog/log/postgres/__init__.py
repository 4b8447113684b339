"""The log on PostgreSQL: any worker on any host continues any session."""
