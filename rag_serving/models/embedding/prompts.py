"""Texts put before queries and passages for models that were trained with them.

Belongs here: how prompts show in a model's name.
Does not belong here: the prompts themselves (configuration).
"""

from __future__ import annotations

import hashlib


def prompts_digest(query_prompt: str, document_prompt: str) -> str:
    """Return the suffix that prompts give a model's name, empty without prompts: other prompts make other vectors."""
    if not query_prompt and not document_prompt:
        return ""
    return "+" + hashlib.sha256(f"{query_prompt}\0{document_prompt}".encode()).hexdigest()[:12]
