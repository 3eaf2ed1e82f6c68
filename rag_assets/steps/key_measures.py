"""The measures that people look at first, and how measures are named for them.

Belongs here: names and order. Does not belong here: what is measured (`rag_serving.evaluation.measures`).
"""

from __future__ import annotations

from collections.abc import Mapping

KEY: Mapping[str, str] = {
    "citation_precision": "citations of a right page",
    "answerability": "answered, or declined, as it should be",
    "not_found_recall": "declined, of what has no answer",
    "recall@10": "right pages among the first ten",
}
"""By name, with what each says in a few words."""


def words(name: str) -> str:
    """Return a measure's name as people read it."""
    return name.replace("_", " ")
