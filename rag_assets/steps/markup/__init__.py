"""Markup of documentation: reStructuredText and AsciiDoc, read into HTML."""
