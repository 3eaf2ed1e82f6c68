"""Contexts of chunks: templates, prompts, quality."""
