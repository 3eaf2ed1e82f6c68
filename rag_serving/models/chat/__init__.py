"""Chat models: clients, messages, and the length of a context."""
