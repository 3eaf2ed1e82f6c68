"""Published generations in PostgreSQL with pgvector, behind row-level security."""
