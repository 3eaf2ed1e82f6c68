"""Text of pages, models and callers as each target may safely show it: one place for every escape."""
