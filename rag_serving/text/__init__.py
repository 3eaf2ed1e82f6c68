"""Text analysis that several stages share."""
