"""The records passed between the stages of a question: queries, passages, claims, answers. Plain and immutable."""
