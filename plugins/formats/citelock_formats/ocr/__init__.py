"""Scanned pages, read: which ones they are, what an engine reads of them, and the PDF that then has their text."""
