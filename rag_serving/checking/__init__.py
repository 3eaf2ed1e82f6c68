"""The claims of a text, compared with the pages, and the report."""
