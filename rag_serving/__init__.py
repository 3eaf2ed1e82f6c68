"""Citelock's serving room: reads published generations and answers with verified citations."""
