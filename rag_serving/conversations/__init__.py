"""Questions in their conversation: what one takes from those before it, and sessions that are stored."""
