"""reStructuredText, read into HTML by docutils."""
