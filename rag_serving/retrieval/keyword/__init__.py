"""The keyword tier: documents and chunks by the words of titles, labels and text, without vectors or models."""
