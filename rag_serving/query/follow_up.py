"""A question that leans on the one before it ("and for contractors?"), completed so that it can be searched alone.

Belongs here: telling such questions from whole ones, what they take from the earlier question. Does not belong here:
the history's shape on the wire (`api`), reading the completed question (`parsing`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_serving.text.analyzer import analyze
from rag_serving.text.small_talk import remark_of

MOST_QUESTIONS = 5
"""Earlier questions that are looked at."""
_LONGEST_CHARS = 300  # of an earlier question that is repeated in the completed one
_FEW_TERMS = 2  # content words of a question that may lean on another; with more it stands alone
_END = "?!. "

_CONNECTIVE = re.compile(
    r"^\s*(?:and|but|or|so|also|then|ok(?:ay)?|und|aber|oder|et|mais|y|pero)\b[\s,]*", re.IGNORECASE
)
_INSTEAD = re.compile(
    r"^\s*(?:(?:what|how) about|(?:what|how) is it (?:for|in|with)|same (?:question )?for|was ist mit"
    r"|wie (?:ist|sieht) es mit|et pour|qu'en est-il de|y para)\b[\s,]*",
    re.IGNORECASE,
)
_PREPOSITION = re.compile(
    r"^(?:in|for|from|at|on|with|without|under|during|after|before|since|für|bei|mit|ohne|pour|avec|sans|para|con)\b",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"(?:why(?: not| so)?|how(?: so| come)?|since when|until when|by whom|who|when|where|how (?:long|many|much|often)"
    r"|warum(?: nicht)?|wieso|seit wann|wie lange|wann|wo|wer|pourquoi|quand|où|qui|por qué|cuándo|dónde)",
    re.IGNORECASE,
)
_POINTING = re.compile(
    r"\b(?:it|its|they|them|their|this|that|these|those|there|one|ones|he|she|him|her|the same|such|else|otherwise"
    r"|das|dies(?:e[rsmn]?)?|dafür|davon|dazu|dabei|ça|cela|celui-ci|eso|esto)\b",
    re.IGNORECASE,
)
_LEADING_QUESTION_WORDS = re.compile(
    r"^(?:(?:how (?:long|many|much|often|soon|do|does|did|can|should|must|may|to|is|are)"
    r"|what(?:'s| is| are| does| do)?|which|who(?:'s| is| may| can)?|when|where|why"
    r"|is|are|do|does|did|can|may|must|should)\s+(?:(?:i|we|you|one|the|a|an|to|do|does|get|be|can|may|must|should)\s+)*)",
    re.IGNORECASE,
)


def completed(question: str, earlier: Sequence[str]) -> str | None:
    """Return the question as it is to be searched, completed from earlier ones (oldest first), or None where it stands
    alone.

    Earlier questions that lean on others go on about the same, and are passed over.
    """
    asked = ""
    for text in earlier[-MOST_QUESTIONS:]:
        asked = _carried(text.strip(), asked)
    return _joined(question.strip(), asked[:_LONGEST_CHARS].rstrip(_END))


def _carried(text: str, before: str) -> str:
    """Return the question that the next one may lean on: what itself leans on another goes on about the same."""
    if _joined(text, before[:_LONGEST_CHARS].rstrip(_END)) or remark_of(text):
        return before
    return text


def _joined(text: str, before: str) -> str | None:
    """Return a question completed from the one before it, or None where it stands alone or nothing stands before."""
    if not text or not before:
        return None
    if case := _other_case(text, before):
        return f"{before}: {case}?"
    said = _CONNECTIVE.sub("", text)
    bare = said.rstrip(_END)
    if not _BARE.fullmatch(bare) and (remark_of(text) or not _leans(said, text)):
        return None
    return f"{bare}: {_topic(before)}?"


def _other_case(text: str, before: str) -> str | None:
    """Return the case that the earlier question is asked of instead ("what about contractors?"), or None."""
    if not before:
        return None
    said = _CONNECTIVE.sub("", text)
    case = _INSTEAD.sub("", said).rstrip(_END)
    terms = len(_terms(case))
    is_case = (
        _INSTEAD.match(said)
        or (_PREPOSITION.match(said) and terms <= _FEW_TERMS + 1)
        or (said != text and terms == 1 and not _BARE.fullmatch(case) and not _POINTING.search(case))
    )
    return case if is_case and terms else None


def _leans(said: str, text: str) -> bool:
    """Return whether a question points at something it does not name, or goes on from another with few words."""
    return (said != text or _POINTING.search(said) is not None) and len(_terms(said)) <= _FEW_TERMS


def _topic(before: str) -> str:
    """Return what a question is about: itself without its question words."""
    return _LEADING_QUESTION_WORDS.sub("", before, count=1) or before


def _terms(text: str) -> set[str]:
    """Return the content words of a text, without those that only point at something."""
    return set(analyze(_POINTING.sub(" ", text)))
