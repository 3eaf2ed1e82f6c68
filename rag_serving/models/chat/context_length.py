"""How servers say that a prompt is too long: no two of them alike, some with status 200.

Belongs here: recognizing it. Does not belong here: what is done about it (`answering.writing.generator`).
"""

from __future__ import annotations

import re

# OpenAI, vLLM: "maximum context length is 4096 tokens", code context_length_exceeded; llama.cpp: "exceeds the available
# context size", exceed_context_size_error; LM Studio: "keep the first 111490 tokens when context the overflows";
# Ollama: "input length exceeds the context length"; others: "prompt is too long", "too many tokens".
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum (?:context|model) length|context the overflows"
    r"|context (?:length|size|window).{0,40}exceed|exceed\w{0,4}.{0,40}context (?:length|size|window)"
    r"|prompt is too long|too many tokens|reduce the length",
    re.IGNORECASE,
)


def says_too_long(text: str) -> bool:
    """Return whether an error message says that the prompt has more tokens than the model reads."""
    return _TOO_LONG.search(text) is not None
