"""The kind of answer that a question expects, and its signs in a sentence. Expected answer types: Li & Roth, "Learning
Question Classifiers", COLING 2002. The signs are those of English."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

Kind = Literal["person", "time", "quantity", "place", "reason", "yes_no", "command", "steps", "thing", "statement"]

_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("command", r"\b(?:what|which) (?:\w+ )?(?:command|flag|option|query|script)\b|\bcommand (?:to|for|that)\b"),
    ("steps", r"\bhow (?:do|can|should|would|to|must) |^how (?:is|are) \w+ \w+ed\b"),
    ("steps", r"\b(?:what|which) (?:\w+ ){0,2}steps\b|\bwhat (?:do|should|must) (?:I|we|you) do\b"),
    ("quantity", r"\bhow (?:many|much|long|old|often|large|big|high|tall|fast|far|deep|wide|heavy)\b"),
    ("quantity", r"\bwhat (?:percent\w*|number|age|amount|fraction|share|size)\b"),
    ("time", r"\bwhen\b|\b(?:what|which) (?:year|century|decade|date|month|day|time|hour)s?\b"),
    ("place", r"\bwhere\b|\b(?:what|which) (?:city|country|town|place|room|floor)\b"),
    ("person", r"\bwho(?:m|se)?\b"),
    ("reason", r"\bwhy\b|\bwhat (?:caused|is the reason|was the reason)\b"),
    ("thing", r"\b(?:what|which)\b"),
    ("steps", r"\bhow\b"),
    ("yes_no", r"^(?:is|are|was|were|do|does|did|can|could|may|must|should|will|would|has|have|am|shall)\b"),
)
_KINDS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS)
_TWO_QUESTIONS = re.compile(
    r"[?;]\s+|(?<!\s),?\s+(?:and|or|but)\s+(?=(?:also\s+)?(?:who|whom|whose|what|which|when|where|why|how|is|are|does|do|can|may)\b)"
    r"|,\s+(?=(?:who|whom|what|which|when|where|why|how)\b)",
    re.IGNORECASE,
)
_FORM = re.compile(
    r"\bhow (?:many|much|long|old|often|large|big|small|high|tall|fast|far|deep|wide|heavy|accurate(?:ly)?|soon|late)\b"
    r"|\b(?:what|which) (?:percent\w*|number|age|amount|share|size|year|date|day|time|kind|type|sort)s?(?: of)?\b"
    r"|\bwhat happen(?:s|ed)\b|\bam\b",
    re.IGNORECASE,
)
# Frames of a question that ask no more than the words after them, and mistyped question words.
_FRAME = re.compile(
    r"\b(?:do|can|could|should|must|may|will|would) (?:i|we|you|one|people) (?:get|have|need|want|find|see|look up)\b"
    r"(?: out| to)?"
    r"|\b(?:is|are) there (?:any )?(?:instruction|rule|guideline|doc|page|guide|runbook|policy|policie|info)s? "
    r"(?:for|on|about|of|to)\b(?: (?:when|what|how)\b)?"
    r"|\b(?:(?:can|could) (?:you|someone|anybody) )?(?:please )?tell me\b(?: (?:more )?about\b)?"
    r"|\b(?:do you|does any(?:one|body)) know\b|\bi(?:['’]d| would)? (?:want|like|need) to know\b|\bany idea\b"
    r"|\b(?:wat|waht|wats|whats|wich|hwo)\b(?!['’])",
    re.IGNORECASE,
)
_TIME_WORDS = """
january february march april may june july august september october november december
monday tuesday wednesday thursday friday saturday sunday
century centuries decade year month week day hour minute today daily weekly monthly
"""
_NUMBER_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty hundred
hundreds thousand thousands million millions billion dozen half third quarter once twice every several many few both
always never most least all none daily weekly monthly
"""
# A duration is no answer to "when".
_DURATION = re.compile(
    rf"\b(?:for|lasts?|lasted|takes?|took)\s+(?:\w+\s+){{0,2}}?(?:\d[\d.,]*|{'|'.join(_NUMBER_WORDS.split())})\s+"
    r"(?:second|minute|hour|day|week|month|year|decade)s?\b",
    re.IGNORECASE,
)
_PRONOUN_WORDS = "he she they it we you i this that these those his her its their our the a an"
_TIMES = frozenset(_TIME_WORDS.split())
_NUMBERS = frozenset(_NUMBER_WORDS.split())
_PRONOUNS = frozenset(_PRONOUN_WORDS.split())
_REASON = re.compile(
    r"\b(?:because|due to|since|so that|in order to|therefore|as a result|caus\w+|result\w*|led to|reason\w*|to)\b",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\b(?:in|at|on|near|from|under|to|inside)\b", re.IGNORECASE)
_ROLE = re.compile(
    r"\b(?:\w*(?:er|or|ist|man|men|lead|head|chief|desk|team|group|people|person|nobody|everybody|anyone))\b",
    re.IGNORECASE,
)
_FEWEST_WORDS_OF_A_CLAIM = 5
_WORD = re.compile(r"\w+(?:['’.,:/-]\w+)*")


def kind_of(question: str) -> Kind:
    """Return the kind of answer that a question wants; `statement` if it is none (claims, keywords)."""
    text = question.strip()
    for kind, pattern in _KINDS:
        if pattern.search(text):
            return kind
    return "thing" if text.endswith("?") else "statement"


def is_claim(text: str) -> bool:
    """Return whether a whole sentence states something, to be borne out: no question, and no keywords."""
    return (
        kind_of(text) == "statement" and len(text.split()) >= _FEWEST_WORDS_OF_A_CLAIM and text.rstrip().endswith(".")
    )


def holds(kind: Kind, sentence: str, question_terms: Collection[str]) -> bool:
    """Return whether the sentence has something of the expected kind beyond the question's words (lower case)."""
    if kind == "time":
        sentence = _DURATION.sub(" ", sentence)
    words = [word for word in _WORD.findall(sentence) if word.lower() not in question_terms]
    lower = {word.lower() for word in words}
    if kind == "quantity":
        return _has_number(words, lower)
    if kind == "time":
        return _has_number(words, lower) or not lower.isdisjoint(_TIMES)
    if kind == "person":
        return any(_is_name(word) for word in words) or bool(_ROLE.search(" ".join(words)))
    if kind == "place":
        return any(_is_name(word) for word in words) or bool(_PLACE.search(sentence))
    if kind == "reason":
        return bool(_REASON.search(sentence))
    return True


def topic_of(question: str) -> str:
    """Return the question without the words that only say that it is one, or what kind of answer it wants: `How many`,
    `What percentage of`, `do we get`, `can you tell me`. An answer does not repeat them: "How long is a token valid?"
    is answered by "for 30 minutes"."""
    return _FORM.sub(" ", _FRAME.sub(" ", question))


def parts_of(question: str) -> list[str]:
    """Return the parts of a two-part question, each with its own interrogative; none of a single one. "Who looks at
    dead letters, and how long are they kept?" asks for a person and a time."""
    parts = [part.strip(" ,;") for part in _TWO_QUESTIONS.split(question) if part and part.strip(" ,;")]
    return parts if len(parts) > 1 and all(len(part.split()) > 1 for part in parts) else []


def names_of(question: str) -> list[str]:
    """Return the capitalized words of a question, its first word aside."""
    return [word for word in _WORD.findall(question)[1:] if word[0].isupper()]


def asked_words(question: str) -> frozenset[str]:
    """Return the words of a question in lower case."""
    return frozenset(word.lower() for word in _WORD.findall(question))


def _has_number(words: Collection[str], lower: Collection[str]) -> bool:
    return any(any(character.isdigit() for character in word) for word in words) or not _NUMBERS.isdisjoint(lower)


def _is_name(word: str) -> bool:
    return word[0].isupper() and word.lower() not in _PRONOUNS | _TIMES
