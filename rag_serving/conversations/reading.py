"""The meaning of a question in its conversation: a chosen option, a completed question, a page in context. Earlier
answers are not trusted: their options and citations are recomputed, by repeating the earlier question with the asker's
current access. Recorded answers only choose among these."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from rag_serving.conversations.turns import Conversation, ConversationTurn
from rag_serving.records.decisions import ClarificationOption
from rag_serving.records.queries import Filters
from rag_serving.text.analyzer import analyze
from rag_serving.text.normalization import caseless
from rag_serving.text.orders import is_order
from rag_serving.text.small_talk import remark_of

_ON_PAGE = re.compile(
    r"\s{0,3}\b(?:on|in|from|of|does|according to|auf|in) (?:that|this|the same|dieser|dieselben) "
    r"(?:page|document|article|guide|seite|doc)\b(?: say)?",
    re.IGNORECASE,
)
_TITLE_WORDS = 30


@dataclass(frozen=True)
class FoundPage:
    """A page from an earlier question, within the asker's current access."""

    title: str
    url: str


@dataclass(frozen=True)
class FoundAgain:
    """The result of an earlier question that was repeated."""

    is_told: bool = False  # whether it is answered with confidence
    confidence: float = 0.0
    options: tuple[ClarificationOption, ...] = ()
    pages: tuple[FoundPage, ...] = ()  # those that are cited first, best first


AskAgain = Callable[[str, Filters | None], FoundAgain]
Rewrite = Callable[[str, Sequence[ConversationTurn]], str | None]
"""Returns a question rewritten by a language model, or None where there is none, or it is of no use."""


@dataclass(frozen=True)
class Reading:
    """A question as it is to be searched."""

    text: str
    page: str | None = None  # the title of a page that is preferred
    filters: Filters | None = None  # the caller's, or those that are carried forward


@dataclass(frozen=True)
class _Subject:
    """The subject of the turns before a question."""

    base: str = ""  # the last complete question
    last: str = ""  # the last question as resolved
    latest: str = ""  # the same, a remark included: the one with options
    filters: Filters | None = None
    answer: str = ""  # its answer according to the client
    may_offer: bool = True  # whether options may have been offered


def read_in(
    conversation: Conversation, question: str, filters: Filters | None, ask_again: AskAgain, rewrite: Rewrite
) -> Reading:
    """Return the meaning of a question after the turns of a conversation."""
    turns = [turn for turn in conversation.last_turns if not is_order(turn.question)]
    subject = _Subject()
    for turn in turns:
        subject = _after(subject, turn, ask_again)
    if not subject.latest or is_order(question):
        return Reading(question, filters=filters)
    if option := _picked(question, subject, ask_again):
        return Reading(option.query or option.label, filters=filters or subject.filters)
    return _followed(question, filters, subject, ask_again, lambda: rewrite(question, turns))


def _followed(
    question: str, filters: Filters | None, subject: _Subject, ask_again: AskAgain, rewritten: Callable[[], str | None]
) -> Reading:
    points, asked = _ON_PAGE.search(question), question
    if points:
        asked = _ON_PAGE.sub("", question, count=1).strip() or question
    by_rules = None if points and terms_of(asked) else joined(asked, subject.base)
    leans = bool(by_rules or points)
    goes_on = _CONNECTIVE.match(question) is not None  # it begins like a follow-up, and may still be complete
    may_lean = goes_on or _POINTING.search(question) is not None or len(terms_of(question)) <= _MAY_LEAN_TERMS
    written = rewritten() if leans or may_lean else None
    if not (leans or written or goes_on):
        return Reading(question, filters=filters)
    # such as "what about contractors?"
    is_elsewhere = by_rules is not None and _other_case(asked.strip(), subject.base) is not None
    page = None if is_elsewhere else _page(subject, ask_again)
    filters = filters or (subject.filters if leans else None)
    text = written or by_rules or asked
    if page and by_rules and not written:
        text = _likelier([by_rules, asked_of(asked, page)], filters, ask_again)
    if points and page and not (filters and filters.title):
        words = tuple(page.split()[:_TITLE_WORDS])
        filters = Filters(**{**vars(filters or Filters()), "title": words})
    return Reading(text, page, filters)


def _likelier(texts: Sequence[str | None], filters: Filters | None, ask_again: AskAgain) -> str:

    def worth(text: str) -> tuple[bool, float]:
        found = ask_again(text, filters)
        return found.is_told, found.confidence

    return max(filter(None, texts), key=worth)


def _after(subject: _Subject, turn: ConversationTurn, ask_again: AskAgain) -> _Subject:
    filters = turn.filters or subject.filters
    if option := _picked(turn.question, subject, ask_again):
        base = last = latest = option.query or option.label
    elif remark_of(turn.question) and not joined(turn.question, subject.base):
        base, last, latest = subject.base, subject.last, turn.question
    else:
        base = carried(turn.question, subject.base)
        filters = turn.filters if base == turn.question else filters
        last = latest = joined(turn.question, subject.base) or turn.question
    return _Subject(base, last, latest, filters, turn.answer, turn.may_offer)


def _picked(text: str, subject: _Subject, ask_again: AskAgain) -> ClarificationOption | None:
    if not (subject.latest and subject.may_offer) or not (is_pick(text) or may_pick(text, subject.answer)):
        return None
    return picked(text, ask_again(subject.latest, subject.filters).options)


def _page(subject: _Subject, ask_again: AskAgain) -> str | None:
    if not subject.last:
        return None
    pages = ask_again(subject.last, subject.filters).pages
    said = caseless(subject.answer)
    named = [page for page in pages if page.url in subject.answer or caseless(page.title) in said]
    return next((page.title for page in (*named, *pages)), None)


_LONGEST_PICK, _MOST_WORDS = 200, 10
_AROUND_PICK = " .,;:!?\"'“”‘’()[]"

_YES = (
    "yes|yeah|yep|yup|sure|right|correct|exactly|precisely|ok|okay|please|please do|go ahead|that one|this one"
    "|yes please|that's right|that is right|that's it|i do|ja|ja bitte|genau|richtig|oui|sí|si"
)
_ORDINALS = (
    "first|1st|erste[rsn]?|premi(?:er|ère)|primer[oa]?",
    "second|2nd|other|zweite[rsn]?|andere[rsn]?|deuxième|segund[oa]",
    "third|3rd|dritte[rsn]?|troisième|tercer[oa]?",
    "fourth|4th|vierte[rsn]?",
    "fifth|5th|fünfte[rsn]?",
)
_NUMBERS = ("one", "two", "three", "four", "five")
_BEFORE = r"(?:(?:no|not that|yes|ok|okay|i mean|i meant|let's take|take|give me|show me)[\s,]{1,3}){0,2}"
_NOUN = r"(?:\s(?:one|option|page|choice|please|thing|link))?(?:\splease)?"
_FORM = re.compile(
    rf"{_BEFORE}(?:(?P<yes>{_YES})|(?:the|das|die|der|le|la|el)?\s?(?:(?P<former>former)|(?P<last>last|latter|letzte[rsn]?)"
    + "".join(f"|(?P<n{number}>{words})" for number, words in enumerate(_ORDINALS))
    + rf"){_NOUN}|(?:option|number|choice|no\.|nummer|#)?\s?(?P<digits>\d{{1,2}})"
    rf"|(?:option|number|choice)\s(?P<word>{'|'.join(_NUMBERS)}))",
    re.IGNORECASE,
)
_MEANT = re.compile(
    r"^(?:(?:no|yes|ok|okay|well|sorry|i mean|i meant|i want|it's|the|about|for|rather)[\s,]{1,3}){1,4}", re.IGNORECASE
)


def is_pick(text: str) -> bool:
    """Return whether a text by its form picks an option, such as `yes` or `the second one`."""
    bare = text.strip(_AROUND_PICK)
    return len(bare) <= _LONGEST_PICK and _FORM.fullmatch(bare) is not None


def may_pick(text: str, answer: str) -> bool:
    """Return whether a text may be the label of an option. `answer`: the previous answer according to the client; if
    known, it must contain the text."""
    bare = _MEANT.sub("", text.strip(_AROUND_PICK))
    if not bare or len(bare) > _LONGEST_PICK or len(bare.split()) > _MOST_WORDS:
        return False
    return not answer or caseless(bare) in caseless(answer)


def picked(text: str, options: Sequence[ClarificationOption]) -> ClarificationOption | None:
    """Return the option that a text names by `yes`, its number or its label; None if it names none, or several."""
    bare = text.strip(_AROUND_PICK)[:_LONGEST_PICK]
    if not options or not bare:
        return None
    if form := _FORM.fullmatch(bare):
        number = _number(form, len(options))
        return options[number] if 0 <= number < len(options) else None
    bare = _MEANT.sub("", bare)
    names = [{caseless(each.strip(_AROUND_PICK)) for each in (option.label, option.query or "")} for option in options]
    named = [option for option, known in zip(options, names, strict=True) if caseless(bare) in known]
    terms = set(analyze(bare))
    named = named or [option for option in options if terms and terms <= set(analyze(option.label))]
    return named[0] if len(named) == 1 else None


def _number(form: re.Match[str], count: int) -> int:
    groups = form.groupdict()
    if groups["yes"] or groups["former"]:
        return 0
    if groups["last"]:
        return count - 1
    if groups["digits"]:
        return int(groups["digits"]) - 1
    if groups["word"]:
        return _NUMBERS.index(groups["word"].lower())
    return next(number for number in range(len(_ORDINALS)) if groups[f"n{number}"])


_LONGEST_CHARS = 300  # of an earlier question that is repeated in the completed one
_FEW_TERMS = 2  # most content words of a follow-up; with more the question is complete
_SOME_TERMS = 6  # the same if a pronoun refers to nothing in the question itself
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
# Nouns and verbs of a thing's attributes: alone in a question, they refer to the earlier subject.
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


def carried(text: str, before: str) -> str:
    """Return the question that the next one may refer to: a follow-up continues the same subject."""
    return before if joined(text, before) or remark_of(text) else text


def joined(text: str, before: str) -> str | None:
    """Return a question completed from the one before it, or None if it is complete or there is none before."""
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
    """Return a follow-up rewritten about a subject such as a page's title; None if nothing of its own is left."""
    bare = _CONNECTIVE.sub("", text.strip()).rstrip(_END)
    if more := _MORE.fullmatch(bare):
        bare = "" if more["what"].lower() in _SAYS_NOTHING else more["what"]
    return f"{bare}: {subject}?" if bare else None


def _other_case(text: str, before: str) -> str | None:
    """Return the new case for the earlier question ("what about contractors?"), or None."""
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
    terms = terms_of(said)
    if len(terms) <= _FEW_TERMS and (said != text or _POINTING.search(said) is not None or terms <= _of_something()):
        return bool(terms) or said != text or _POINTING.search(said) is not None
    return len(terms) <= _SOME_TERMS and (_points_outside(said) or _ELLIPTIC.match(said) is not None)


@cache
def _of_something() -> frozenset[str]:
    return frozenset(analyze(_OF_SOMETHING))


def _points_outside(said: str) -> bool:
    """Return whether the first clause of a question has a pronoun that nothing before it can resolve."""
    bare = _EXPLETIVE.sub(" ", said)
    pronoun = _PRONOUN.search(bare)
    if pronoun is None:
        return False
    before = bare[: pronoun.start()]
    if pronoun[0].lower() in ("its", "their") and terms_of(before):  # "Does the portal cache its pages?"
        return False
    return not _CLAUSE.search(before) and (_ASKING.match(bare) is not None or len(before.split()) < _FEW_TERMS)


def _topic(before: str) -> str:
    """Return the subject of a question: itself without its question words."""
    bare = _LEADING_QUESTION_WORDS.sub("", before, count=1)
    return " ".join(_ASKER.sub(" ", bare).split()) or before


def terms_of(text: str) -> set[str]:
    """Return the content words of a text, without those that only point at something."""
    return set(analyze(_POINTING.sub(" ", text)))
