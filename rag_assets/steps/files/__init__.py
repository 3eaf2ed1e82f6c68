"""Files, read: from their bytes to a body that sections can be made of."""
