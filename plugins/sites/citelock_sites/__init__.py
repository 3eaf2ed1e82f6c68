"""Readers of documentation sites by their generators' sources, and of their markup: a plug-in of Citelock."""
