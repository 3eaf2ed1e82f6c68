"""What of a table still holds, and what is made again."""
