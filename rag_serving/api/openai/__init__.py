"""OpenAI's API: chat clients that people already have ask Citelock instead of a model."""
