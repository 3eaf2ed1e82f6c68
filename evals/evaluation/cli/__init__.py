"""Commands that evaluate: arguments and printing."""
