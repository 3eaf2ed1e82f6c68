"""What was asked and what became of it: recorded beside the questions, never in their way."""
