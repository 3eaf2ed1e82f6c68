"""The reading of a question: operators, scopes, spelling, and notes to the asker."""
