"""Names of models on an Ollama server.

Belongs here: tags, the message for a model that is not there. Does not belong here: asking the server.
"""

from __future__ import annotations


def with_tag(model: str) -> str:
    """Return a name as the server lists it, `name:tag`; `latest` may be left out."""
    return model if ":" in model.rpartition("/")[2] else f"{model}:latest"


def missing(model: str, base_url: str) -> str:
    """Return the line for a model that the server does not have."""
    return f"model {model!r} is not on the Ollama server at {base_url}; run `ollama pull {model}`"
