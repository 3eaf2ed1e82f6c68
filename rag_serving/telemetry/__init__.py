"""Questions and their outcomes: recorded beside the questions, never in their way."""
