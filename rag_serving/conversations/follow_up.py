"""A question that leans on the one before it ("and for contractors?"), completed so that it can be searched alone.

Belongs here: telling such questions from whole ones, what they take from the words of the earlier question. Does not
belong here: what earlier answers add (`reading`), reading the completed question (`query.parsing`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from rag_serving.conversations.turns import MOST_TURNS
from rag_serving.text.analyzer import analyze
from rag_serving.text.small_talk import remark_of

_LONGEST_CHARS = 300  # of an earlier question that is repeated in the completed one
_FEW_TERMS = 2  # content words of a question that may lean on another; with more it stands alone
_SOME_TERMS = 6  # the same where a pronoun has nothing to stand for in the question itself
_MAY_LEAN_TERMS = 4  # of a question that a language model may complete
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
_ELLIPTIC = re.compile(
    r"(?:how (?:much|many|long|often|soon|far)|when|who|where|why|what|which) "
    r"(?:without|with|for|in|if|at|on|before|after|during|per|by|under|above|over|from|outside|inside|instead of)\b",
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
_ASKER = re.compile(
    r"\b(?:do|does|did|can|may|must|should|will|would) (?:i|we|you|one|they|people)\b(?: (?:get|have|need)(?!\W*\w))?",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"(?:please\s)?(?:can you\s|could you\s)?(?:(?:show|tell|give) (?:me |us )?)?(?:(?:all )?(?:the |some |any |an? )?"
    r"(?P<what>steps?|step by step|examples?|details?|more details?|more|more about (?:it|that|this)|command|commands"
    r"|code|table|list|exceptions?|requirements?|prerequisites?|reasons?|links?|form|template|default|deadline"
    r"|limits?|costs?|price|owner|contact))(?: (?:of|for|about|on) (?:it|that|this|them))?(?:,? please)?",
    re.IGNORECASE,
)
_SAYS_NOTHING = frozenset({"more", "details", "detail", "more details", "more detail", "more about it"})
# Nouns and verbs of what a thing has: with nothing else in the question, they ask it of what was asked about before.
_OF_SOMETHING = """
deadline limit exception exceptions step cost price fee approval approver owner contact requirement prerequisite default
maximum minimum max min duration process reason example difference alternative format size location address penalty
consequence form link template approve apply happen need take required allowed responsible charge sign pay decide change
start end begin finish expire afterwards next first last long often much many soon late time date day week month amount
number value setting option risk limitation procedure rule decides approves signs
"""
_PRONOUN = re.compile(
    r"\b(?:it|its|they|them|their|those|these|this|that(?=\W*$)|that (?=(?:page|process|rule|policy|limit|setting|value"
    r"|number|case|team|step|form|document|guide|section|command|time|way|kind|type)s?\b)|one(?=\W*$)|there(?=\W*$))\b",
    re.IGNORECASE,
)
_EXPLETIVE = re.compile(
    r"\b(?:is|was|are|be|can|will|would|does|do|did|if|whether|how long|what)\s(?:it|there|this|that|these|those)\s"
    r"(?:(?:not|also|still|be|ever|even)\s)?(?:ok|okay|possible|allowed|safe|true|necessary|required|better|worth|fine"
    r"|legal|mandatory|important|recommended|enough|called|like|that|when|if"
    r"|take to|cost to|mean to|matter|any|an?|some|no)\b"
    r"|\b(?:is|are|was|were) there\b|\bthere (?:is|are|was|were)\b"
    r"|\b(?:this|these|those) (?:year|week|month|quarter|morning|afternoon|evening|company|summer|winter|days)s?\b",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"\s{0,3}(?:how|what|which|who|whom|whose|when|where|why|is|are|was|were|do|does|did|can|could|may|must|shall|should|will"
    r"|would|has|have|am|in which|for how|until|since|by|at what)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"\b(?:and|but|or|then|when|before|after|if|so|because|until|once|while|that|which|who)\b", re.I)


def completed(question: str, earlier: Sequence[str]) -> str | None:
    """Return the question as it is to be searched, completed from earlier ones (oldest first), or None where it stands
    alone.

    Earlier questions that lean on others go on about the same, and are passed over.
    """
    asked = ""
    for text in earlier[-MOST_TURNS:]:
        asked = carried(text.strip(), asked)
    return joined(question, asked)


def carried(text: str, before: str) -> str:
    """Return the question that the next one may lean on: what itself leans on another goes on about the same."""
    if joined(text, before) or remark_of(text):
        return before
    return text


def joined(text: str, before: str) -> str | None:
    """Return a question completed from the one before it, or None where it stands alone or nothing stands before."""
    text, before = text.strip(), before[:_LONGEST_CHARS].rstrip(_END)
    if not text or not before:
        return None
    if case := _other_case(text, before):
        return f"{before}: {case}?"
    said = _CONNECTIVE.sub("", text)
    bare = said.rstrip(_END)
    if more := _MORE.fullmatch(bare):
        what = more["what"].lower()
        return f"{before}?" if what in _SAYS_NOTHING else f"{what}: {_topic(before)}?"
    remark = remark_of(text)
    if remark == "help" and _POINTING.search(said):  # "How does it work?"
        remark = None
    if not _BARE.fullmatch(bare) and (remark or not _leans(said, text)):
        return None
    return f"{bare}: {_topic(before)}?"


def asked_of(text: str, subject: str) -> str | None:
    """Return a question that leans on another one, asked of a subject such as a page's title; None where nothing of its
    own is left."""
    bare = _CONNECTIVE.sub("", text.strip()).rstrip(_END)
    if more := _MORE.fullmatch(bare):
        bare = "" if more["what"].lower() in _SAYS_NOTHING else more["what"]
    return f"{bare}: {subject}?" if bare else None


def may_lean(text: str) -> bool:
    """Return whether a question may lean on others, though no rule says how."""
    return goes_on(text) or _POINTING.search(text) is not None or len(terms_of(text)) <= _MAY_LEAN_TERMS


def goes_on(text: str) -> bool:
    """Return whether a question begins as one that goes on from another: it may stand alone all the same."""
    return _CONNECTIVE.match(text) is not None


def is_other_case(text: str, before: str) -> bool:
    """Return whether a question asks the one before it of another case ("what about contractors?")."""
    return _other_case(text.strip(), before) is not None


def _other_case(text: str, before: str) -> str | None:
    """Return the case that the earlier question is asked of instead ("what about contractors?"), or None."""
    if not before:
        return None
    said = _CONNECTIVE.sub("", text)
    case = _INSTEAD.sub("", said).rstrip(_END)
    terms = len(terms_of(case))
    is_case = (
        _INSTEAD.match(said)
        or (_PREPOSITION.match(said) and terms <= _FEW_TERMS + 1)
        or (said != text and terms == 1 and not _BARE.fullmatch(case) and not _POINTING.search(case))
    )
    return case if is_case and terms else None


def _leans(said: str, text: str) -> bool:
    """Return whether a question points at something it does not name, or goes on from another with few words."""
    terms = terms_of(said)
    if len(terms) <= _FEW_TERMS and (said != text or _POINTING.search(said) is not None or terms <= _of_something()):
        return bool(terms) or said != text or _POINTING.search(said) is not None
    return len(terms) <= _SOME_TERMS and (_points_outside(said) or _ELLIPTIC.match(said) is not None)


@cache
def _of_something() -> frozenset[str]:
    return frozenset(analyze(_OF_SOMETHING))


def _points_outside(said: str) -> bool:
    """Return whether a pronoun stands in the first clause of a question, so that nothing before it can be meant."""
    bare = _EXPLETIVE.sub(" ", said)
    pronoun = _PRONOUN.search(bare)
    if pronoun is None:
        return False
    before = bare[: pronoun.start()]
    if pronoun[0].lower() in ("its", "their") and terms_of(before):  # "Does the portal cache its pages?"
        return False
    return not _CLAUSE.search(before) and (_ASKING.match(bare) is not None or len(before.split()) < _FEW_TERMS)


def _topic(before: str) -> str:
    """Return what a question is about: itself without its question words."""
    bare = _LEADING_QUESTION_WORDS.sub("", before, count=1)
    return " ".join(_ASKER.sub(" ", bare).split()) or before


def terms_of(text: str) -> set[str]:
    """Return the content words of a text, without those that only point at something."""
    return set(analyze(_POINTING.sub(" ", text)))
