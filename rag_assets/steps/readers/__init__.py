"""Who may read a page, and why."""
