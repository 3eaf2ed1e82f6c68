"""Phrases that mean one thing, with the word or sign that stands for each.

Belongs here: phrases to the letter. Does not belong here: what depends on the words around them (`equivalence`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_PHRASES = (
    ("at least", "≥"), ("no less than", "≥"), ("no fewer than", "≥"), ("not less than", "≥"),
    ("at most", "≤"), ("up to", "≤"), ("no more than", "≤"), ("not more than", "≤"), ("a maximum of", "≤"),
    ("more than", ">"), ("less than", "<"), ("fewer than", "<"), ("in order to", ""), ("as well as", "and"),
    ("a minimum of", "≥"), ("no one", "nobody"), ("only when", "only-if"), ("except if", "unless"),
    ("is required to", "have-to"), ("are required to", "have-to"), ("required to", "required-to"),
    ("is able to", "can"), ("are able to", "can"), ("it is possible to", "can"),
    ("at once", "immediately"), ("right away", "immediately"), ("straight away", "immediately"),
    ("at present", "currently"), ("at the moment", "currently"), ("prior to", "before"),
    ("provided that", "as-long-as"),
    ("so long as", "as-long-as"), ("on condition that", "as-long-as"), ("owing to", "because-of"),
    ("for instance", "for-example"), ("even though", "although"), ("by means of", "through"),
    ("compared with", "compared-with"), ("compared to", "compared-with"), ("all other", "all-other"),
    ("the remaining", "all-other"), ("every quarter", "quarterly"), ("every year", "yearly"),
    ("each night", "nightly"), ("each day", "daily"), ("each week", "weekly"), ("each month", "monthly"),
    ("each quarter", "quarterly"), ("each year", "yearly"), ("is going to", "will"), ("are going to", "will"),
    ("no longer", "no-longer"), ("not any more", "no-longer"), ("as soon as", "as-soon-as"),
    ("as long as", "as-long-as"), ("has to", "have-to"), ("have to", "have-to"), ("had to", "had-to"),
    ("need to", "have-to"), ("needs to", "have-to"),
    ("even if", "even-if"), ("only if", "only-if"), ("in case", "in-case"), ("because of", "because-of"),
    ("due to", "because-of"), ("instead of", "instead-of"), ("rather than", "rather-than"), ("so that", "so-that"),
    ("such as", "such-as"), ("for example", "for-example"), ("a few", "a-few"), ("a lot of", "a-lot-of"),
    ("each other", "each-other"), ("with the exception of", "except"), ("except for", "except"),
    ("every night", "nightly"), ("every day", "daily"), ("every week", "weekly"), ("every month", "monthly"),
    ("going to", "going-to"), ("used to", "used-to"),
)  # fmt: skip


def _by_first_word() -> Mapping[str, Sequence[tuple[list[str], str]]]:
    phrases: dict[str, list[tuple[list[str], str]]] = {}
    for phrase, key in _PHRASES:
        phrases.setdefault(phrase.split()[0], []).append((phrase.split(), key))
    return phrases


PHRASES = _by_first_word()
"""The words of each phrase and what stands for it (nothing where it says nothing), by its first word."""
