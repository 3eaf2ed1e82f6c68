"""What is worth telling somebody of, and how."""
