"""How a question is read: operators, scopes, spelling, and what the asker may be told of."""
