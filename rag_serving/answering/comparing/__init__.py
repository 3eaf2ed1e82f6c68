"""Whether passages give different values for the same thing, and which of them is the more current."""
