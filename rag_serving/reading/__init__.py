"""Pages and passages as a reader sees them, beside what was searched."""
