"""Automatic changes of the retrieval phase, down and up."""
