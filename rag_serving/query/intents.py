"""Two topics in one question: "leave and expenses", "open notes + quick links", "difference between a hold and a lock",
"what is a berth and how do I book one?".

Belongs here: splitting them by the words alone, each into a question of its own.
Does not belong here: whether different pages answer them (`pipeline.locked`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_serving.query.topics import NAMING_NOTHING, topic_of
from rag_serving.text.analyzer import analyze, words_of
from rag_serving.text.question_types import kind_of, parts_of

_LONGEST = 300  # characters of a question that may ask two things
_MOST_WORDS = 5  # of a thing that is named beside another
_SIGNS = " \t\r\n.,;:!?\"“”„'‘’()[]"
_JOINED = re.compile(r" (?:\+|&|and also|and|as well as|plus) ", re.IGNORECASE)
_VERSUS = re.compile(r" (?:vs\.?|versus) ", re.IGNORECASE)
_COMPARED = re.compile(
    r"(?:(?:what(?:'s|’s|s| is| are) )?(?:the )?differences? between|compare) ",
    re.IGNORECASE,
)
_WITH = re.compile(r" (?:and|with|to|from) ", re.IGNORECASE)
_FRAME = re.compile(
    r"(?:please )?(?:explain|describe|summari[sz]e|tell (?:me|us)(?: more)? about"
    r"|what(?:'s|’s| is| are)|where (?:is|are|do (?:i|we) find)|how (?:do|can|should|to)(?: (?:i|we|you))?(?: to)?) ",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?:the|a|an|my|our|your) ", re.IGNORECASE)
_LEANING_WORDS = """
it its they them their this that these those one ones he she him her his there both either neither
"""
_LEANING = frozenset(_LEANING_WORDS.split())
_OPENING_CLAUSES = "who whom when where why which if because while until unless after before whether"
_NO_NAME = frozenset(_OPENING_CLAUSES.split())


def intents_of(question: str) -> tuple[str, str] | None:
    """Return the two topics of a question, each as a question of its own; None if there may be only one.

    A part that depends on the other ("and how do I delete it?") makes one question of both, and so do three topics.
    """
    if len(question) > _LONGEST or "\n" in question.strip():
        return None
    said = " ".join(question.strip(_SIGNS).split())
    for one, other in _candidates(said):
        if _stands(one) and _stands(other) and set(analyze(one)) != set(analyze(other)):
            return one, other
    return None


def _candidates(said: str) -> Iterator[tuple[str, str]]:
    """Yield ways to read a question as two."""
    compared = _COMPARED.match(said)
    pair = _WITH.split(said[compared.end() :]) if compared else _VERSUS.split(said)
    if compared or len(pair) == 2:
        if len(pair) == 2 and all(map(_is_short, pair)):
            yield f"what is {_bare(pair[0])}", f"what is {_bare(pair[1])}"
        return
    asked = parts_of(said)
    if len(asked) == 2 and all(kind_of(part) not in ("thing", "statement") or topic_of(part) for part in asked):
        yield asked[0], asked[1]
        return
    if not asked:
        yield from _named(said)


def _named(said: str) -> Iterator[tuple[str, str]]:
    """Yield two topics that share a frame, or are named alone."""
    parts = _JOINED.split(said, maxsplit=2)
    if len(parts) != 2 or "," in said:
        return
    frame = found[0] if (found := _FRAME.match(parts[0])) else ""
    one, other = parts[0][len(frame) :].strip(_SIGNS), parts[1].strip(_SIGNS)
    own = _FRAME.match(other)
    if not (_is_short(one) and _is_short(other[own.end() :] if own else other)):
        return
    yield f"{frame}{one}", other if own else f"{frame}{other}"


def _is_short(text: str) -> bool:
    words = [word.lower() for word in words_of(text)]
    return 0 < len(words) <= _MOST_WORDS and _NO_NAME.isdisjoint(words)


def _bare(text: str) -> str:
    found = _ARTICLE.match(text)
    return text[found.end() :] if found and found.end() < len(text) else text


def _stands(part: str) -> bool:
    """Return whether a part is a question of its own: it names something and has no pronoun to resolve."""
    words = {word.lower() for word in words_of(part)}
    return bool(words & _LEANING == set() and set(analyze(part)) - NAMING_NOTHING)
