"""What a stand-in model says about a passage: a good context, made of the passage's own words."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PASSAGE = re.compile(r"<passage-(?:\w+)(?: n=\d+)?>\nUnder [^\n]*:\n(.*?)\n</passage-\w+>", re.DOTALL)


def good_context(messages: list[dict[str, str]]) -> Iterable[str]:
    """A context for each passage of the prompt, numbered where there are several."""
    passages = _PASSAGE.findall(messages[-1]["content"])
    if len(passages) == 1:
        return [about(passages[0])]
    return [f"[{number}] {about(passage)}\n" for number, passage in enumerate(passages, start=1)]


def about(passage: str) -> str:
    """Sixty words and a full stop: the passage's words and fillers."""
    words = re.findall(r"[a-z]+", passage)[:40]
    return "It tells of " + " ".join([*words, *["and"] * (57 - len(words))]) + "."


def tables_of(pages: int, chunks: int) -> list[dict[str, object]]:
    """Rows of SELECTED_CHUNKS that differ in every passage, as far as contexts look at them."""
    return [
        {
            "chunk_id": f"p{page}:1:{index}",
            "page_id": f"p{page}",
            "readers": "everyone",
            "chunk_idx": index,
            "title": f"Guide {page}",
            "heading_path": [f"Guide {page}", "Setup"],
            "text": f"setup of broker {_letters(page)} with partition {_letters(index)} and replica",
        }
        for page in range(pages)
        for index in range(chunks)
    ]


def _letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))
