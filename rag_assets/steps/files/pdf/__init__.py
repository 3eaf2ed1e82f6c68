"""PDF files, read: from words with their places to headings, paragraphs, lists and tables."""
