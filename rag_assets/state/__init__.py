"""What runs leave beside their tables, and what is decided by it."""
