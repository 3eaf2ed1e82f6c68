"""Personal data in texts that are kept: finding it, and taking it out."""
