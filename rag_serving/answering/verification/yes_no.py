"""Whether an answer that begins with yes or no goes against the sentence it cites.

Only what is plain is judged: the question negates nothing, and one clause of the sentence has nearly all of its words.

Belongs here: yes and no. Does not belong here: figures, names and negations of any sentence (`support`).
"""

from __future__ import annotations

import re

from rag_serving.text.polarity_words import negations

_ANSWER = re.compile(r"^\W*(?:(yes|yep|ja|oui|sí)|(no|nope|nein|non))\b(?=\W|$)", re.IGNORECASE)
_ASKS = re.compile(
    r"^\W*(?:is|are|was|were|do|does|did|can|could|may|might|must|should|shall|will|would|has|have|had|am"
    r"|ist|sind|war|darf|dürfen|kann|können|muss|müssen|soll|sollen|hat|haben|wird|werden)\b",
    re.IGNORECASE,
)
_FORBIDS = re.compile(
    r"\b(?:forbidden|prohibited|disallowed|impossible|unable|unsupported|disabled|denied|refused|rejected|verboten)\b",
    re.IGNORECASE,
)
_DEPENDS = re.compile(
    r"\b(?:unless|except|only|until|before|if|when|but|however|instead|or|wenn|außer|nur|bis|sondern)\b", re.IGNORECASE
)
_CLAUSE = re.compile(r"[,;:()\n]+|\s[–—-]\s")
_WORD = re.compile(r"[^\W\d_]{3,}")
_FUNCTION_WORDS = """
the and for are was were does did can may must should shall will would has have any you this der die das den darf
"""
_EMPTY = frozenset(_FUNCTION_WORDS.split())
_STEM, _NEARLY_ALL = 4, 0.75


def polarity_fault(question: str, sentence: str, unit: str) -> str | None:
    """Return why a yes or no goes against the cited sentence of a passage, or None where nothing speaks against it.

    What holds only under a condition (`unless`, `only`, `until`) is not judged.
    """
    match = _ANSWER.match(sentence)
    if match is None or not _ASKS.match(question) or negations(question) or _FORBIDS.search(question):
        return None
    clause = _clause_about(question, unit)
    if clause is None or _DEPENDS.search(unit):
        return None
    is_negative = negations(clause) > 0 or _FORBIDS.search(clause) is not None
    if match[1] and is_negative:
        return "the sentence says yes, the passage negates"
    if match[2] and not is_negative and negations(sentence[match.end() :]) == 0:
        return "the sentence says no, the passage affirms"
    return None


def affirms(question: str, sentence: str, unit: str) -> bool:
    """Return whether the "yes" or "no" that a sentence begins with is what the cited sentence of a passage says.

    A sentence without either says nothing that could be wrong.
    """
    match = _ANSWER.match(sentence)
    if match is None:
        return True
    if not _ASKS.match(question) or negations(question) or _FORBIDS.search(question) or _DEPENDS.search(unit):
        return False
    clause = _clause_about(question, unit)
    if clause is None:
        return False
    is_negative = negations(clause) > 0 or _FORBIDS.search(clause) is not None
    return is_negative == bool(match[2])


def without_yes_or_no(sentence: str) -> str:
    """Return the sentence without the "yes" or "no" that it begins with."""
    match = _ANSWER.match(sentence)
    rest = sentence[match.end() :].lstrip(" ,.;:!–—-") if match else sentence
    return rest[:1].upper() + rest[1:] if rest else sentence


def _clause_about(question: str, unit: str) -> str | None:
    """Return the clause of the unit that has nearly all words of the question, or None."""
    question_stems = _stems(question)
    best = max(_CLAUSE.split(unit), key=lambda clause: len(question_stems & _stems(clause)))
    return best if question_stems and len(question_stems & _stems(best)) >= _NEARLY_ALL * len(question_stems) else None


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in _WORD.findall(text.lower()) if word not in _EMPTY}
