"""Measure what an assistant does with a question: answers it, asks back, says that pages do not tell it, refuses it."""
