"""``scripts/guard``: lets a job in if there is memory for it, and ends it alone if it takes more than its cap."""
