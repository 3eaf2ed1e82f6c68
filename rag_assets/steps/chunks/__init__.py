"""From sections to chunks."""
