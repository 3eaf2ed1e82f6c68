"""What travels between the stages of a question: queries, passages, claims, answers. Plain immutable records."""
