"""What verification rests on: where quotes stand, and what must be the same to the letter."""
