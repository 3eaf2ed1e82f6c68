"""The measures that people look at first, in their order.

Belongs here: names and meaning. Does not belong here: what is measured (`evals.evaluation.measures`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

KEY: Mapping[str, str] = {
    "told_and_right": "told from a right page, of what has an answer",
    "told_and_wrong": "told with confidence, and wrong",
    "closest_and_useful": "a right page shown as the closest, of what has an answer",
    "declined_though_there": "no right page shown, of what has an answer",
    "citation_precision": "citations of a right page",
    "answerability": "answered, or declined, as it should be",
    "not_found_recall": "declined, of what has no answer",
    "not_found_precision": "rightly declined, of what is declined",
    "recall@10": "right pages among the first ten",
}
"""By name, with what each says in a few words."""


def key_first(names: Iterable[str]) -> list[str]:
    """Return names of measures, the key ones before the others."""
    known = list(names)
    return [name for name in KEY if name in known] + [name for name in known if name not in KEY]
