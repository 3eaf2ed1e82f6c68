"""Which question a statement answers, by patterns of English: few questions that read well rather than many.

Belongs here: the patterns, and what a draft may not hold. Does not belong here: where statements come from, and what
becomes of the questions (`gold_suggest`).

A subject is a name or two to five plain words without verb, preposition, pronoun or adverb. What points outside of the
sentence ("the following", "this problem", "it") makes no question, because whoever is asked has not read the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

Build = Callable[[Mapping[str, str]], str | None]

# What a draft never holds: words that stand for something said before, for somebody, or for a place on the page.
_POINT = """
it its itself this that these those they them their theirs he him his she her we us our ours you your yours i me my
there here where such same other another former latter above below following previous next mentioned described said
respective corresponding both neither either any each every all some one ones more most many several two three four
anyone anybody everyone everybody someone somebody something nothing anything everything which who whom whose what
how why first second third last
"""
# What stands between statements, not in a subject.
_LINK = """
and or but nor so yet if when whenever while whereas although though because since unless until once after before as
than then thus hence therefore however moreover furthermore otherwise instead also again now today currently finally
of in on at by for from with without to into via per about over under between during through across within must
should shall may might can could cannot will would is are was were be been being am do does did done has have had
having not no only just even still already too very quite rather often always never sometimes usually mostly maybe
perhaps please let see note given using use describe ok okay yes well oh hi hello thanks sorry
"""
_ADVERB = re.compile(r"\w+ly")
_NO_ADVERB = """
nightly daily weekly monthly hourly yearly early assembly family reply supply anomaly monopoly poly july italy ally
"""
# Nouns that name nothing by themselves: "the problem", "the changes".
_EMPTY = """
problem problems issue issues case cases goal goals question questions point points thing things way ways reason
reasons change changes example examples idea ideas step steps section sections page pages table figure content need
option options approach discussion purpose result results difference differences details detail rest work
"""

_POINTING, _LINKING, _NOT_ADVERBS, _VAGUE = (frozenset(text.split()) for text in (_POINT, _LINK, _NO_ADVERB, _EMPTY))

_WORD = r"[\w`][\w`'’./-]*"
_SUBJECT = rf"(?P<subject>(?:(?:The|An?) )?{_WORD}(?: {_WORD}){{0,4}}?)"
_UNIT = r"(?:ms|milliseconds?|seconds?|minutes?|hours?|days?|weeks?|months?|years?)"
_NUMBER = r"(?:\d[\d.,]*|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|half an?)"
_SPAN = rf"(?:about |at least |at most |up to |around )?{_NUMBER}(?: (?:to|or) {_NUMBER})?(?: working)? {_UNIT}\b"
_DAY = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_TIME = (
    rf"(?:at \d[\d:.]*|at (?:noon|midnight)|every (?:{_NUMBER} )?(?:{_UNIT}|night|morning|evening|{_DAY})"
    rf"|on {_DAY}|daily|weekly|monthly|hourly|nightly|once an? \w+)\b"
)
_PLACED = (
    "stored|kept|held|saved|written|located|placed|hosted|published|documented|listed|logged|recorded|defined|configured"
    "|described|found|installed|archived"
)
_DONE = (
    rf"(?:{_PLACED}|made|built|sent|run|renewed|deleted|removed|rotated|checked|copied|updated|called|paid|read|signed)"
)
_TRANSITIVE = (
    "use|have|contain|include|support|return|provide|require|implement|extend|define|specify|carry|hold|accept|send"
    "|receive|create|store|handle|process|write|consume|produce|declare|show|match|name|set|start|call|buy|give|keep"
)
_IMPERATIVE = (
    "run|use|follow|send|set|click|open|add|take|call|press|ask|write|create|go|choose|select|install|start|stop|copy"
    "|check|execute|configure|enable|disable|make|do|put|give|get|edit|update|change|remove|delete|download|build|push"
    "|merge|tag|sign|apply|pass|type|enter|clone|restart|register|subscribe|submit|export|import|move|tell|report|join"
)
# What somebody is told to do, not what happens.
_TOLD = re.compile(
    rf"(?:then )?(?:(?:{_IMPERATIVE}|please|see|reply|we|you|I|there|let)\b"
    r"|(?!it |they |its |their |the |an? |no |all )[a-z]+ (?:it|them|the|an?|to|this|that|your|its|all|as|only|with)\b)"
)
# What makes a statement one that cannot be quoted alone.
_NOT_ALONE = re.compile(
    r"\b(?:this|these|those|above|below|following|we|we're|we'll|our|us|I|I’m|I'm|here|former|latter)\b", re.IGNORECASE
)
_ASKED = re.compile(r"^(?:How do I|What happens when|How long|When|Where|What) | last\?\Z")


def question_of(sentence: str, context: str = "") -> str | None:
    """Return the question that a statement answers, None where no pattern fits.

    `context` is text that the statement stands in: it tells names from words that are capitalized as the first.
    """
    if not sentence.endswith((".", "!")) or sentence.count("(") != sentence.count(")") or _NOT_ALONE.search(sentence):
        return None
    for pattern, build in _PATTERNS:
        match = pattern.match(sentence)
        question = build({name: text or "" for name, text in match.groupdict().items()}) if match else None
        if question and is_plain(question):
            return _with_small_letter(question, sentence, context)
    return None


def is_plain(question: str) -> bool:
    """Return whether nothing in a question points to what only the page tells, and no bracket or quote is left open."""
    words = [word.casefold() for word in re.findall(r"[A-Za-z]+", _ASKED.sub("", question))]
    return _POINTING.isdisjoint(words) and not set(question) & set('()[]{}<>"“”,;:')


def _steps(parts: Mapping[str, str]) -> str | None:
    goal = parts["goal"]
    return f"How do I {goal}?" if _names_something(goal) else None


def _case(parts: Mapping[str, str]) -> str | None:
    """A case is a clause of its own: a subject, a finite verb of the present, nothing that is told to somebody."""
    case, first = parts["case"], parts["case"].split(" ")[0].casefold()
    finite = re.search(r"\b(?:is|are|has|have|does|do|can|cannot|changes|[a-z]{3,}s)\b", case.partition(" ")[2])
    past = re.search(r"\b(?:was|were|had|did|been|would|could)\b", case)
    starts_with_verb = re.fullmatch(r"\w+(?:ing|ed)", first) and first not in ("nothing", "something", "string")
    told = _TOLD.match(parts["rest"]) or re.match(r"\S+(?:,| and | or )", parts["rest"])  # an enumeration goes on
    if not finite or past or told or starts_with_verb or first in _LINKING - {"no"}:
        return None
    return f"What happens when {_inside(case)}?" if _names_something(case) else None


def _of_subject(template: str) -> Build:
    """Return a question with the subject in it, where that is one, and with the base form of the statement's verb."""

    def build(parts: Mapping[str, str]) -> str | None:
        if not is_subject(parts["subject"]):
            return None
        verb = parts.get("verb", "").removesuffix("s")
        return template.format(**{**parts, "subject": _inside(parts["subject"]), "verb": verb})

    return build


def is_subject(text: str) -> bool:
    """Return whether words name something by themselves."""
    article, _, rest = text.partition(" ")
    words = rest.split() if article in ("The", "A", "An") else text.split()
    if not words or not _names_something(text):
        return False
    bare = [word.strip("`").casefold() for word in words]
    if not _LINKING.isdisjoint(bare) or any(_ADVERB.fullmatch(word) and word not in _NOT_ADVERBS for word in bare):
        return False
    if article == "The" and len(words) == 1:
        return _is_name(words[0])
    return not (article not in ("The", "A", "An") and re.fullmatch(r"[A-Z]\w+(?:ing|ed)", words[0]) and len(words) > 1)


def _is_name(word: str) -> bool:
    """Return whether a word is spelt as no plain word is: `camelCase`, `UPPER`, `with.dots`, with digits."""
    return bool(re.search(r"[A-Z].*[A-Z]|[a-z][A-Z]|[\d._/-]|`", word))


def _names_something(text: str) -> bool:
    words = [word.casefold() for word in re.findall(r"[A-Za-z]+", text)]
    contents = [word for word in words if word not in ("the", "a", "an")]
    return bool(contents) and _POINTING.isdisjoint(words) and (len(contents) > 2 or _VAGUE.isdisjoint(contents))


def _inside(text: str) -> str:
    """Return a beginning of a sentence as it stands inside one."""
    bare = " ".join(text.replace("`", "").replace("**", "").split())
    article, _, rest = bare.partition(" ")
    return f"{article.lower()} {rest}" if article in ("The", "A", "An") else bare


def _with_small_letter(question: str, sentence: str, context: str) -> str:
    """Return the question with the statement's first word small, where the context writes it so and not as a name."""
    word = re.match(r"[A-Z][a-z]+\b", sentence)
    if not word or question.find(word[0]) <= 0:
        return question
    others = context.replace(sentence, " ")
    small = re.search(rf"\b{word[0].lower()}\b", others)
    as_name = re.search(rf"(?<![.!?:|*#\n]) {word[0]}\b", others)
    return question.replace(word[0], word[0].lower(), 1) if small and not as_name else question


def _patterns() -> Iterator[tuple[str, Build]]:
    """Pairs of a statement's pattern and what makes the question; the first that gives one counts."""
    to_do = rf"(?:please |first |then |you (?:can|must|should|need to|have to) |just )?(?:{_IMPERATIVE})\b"
    yield rf"^To (?P<goal>[^,.;:()]{{5,80}}), {to_do}", _steps
    yield r"^(?:If|When) (?P<case>[^,.;:()]{8,90}), (?P<rest>.+)", _case
    for does, be, s in (("does", "is", "s"), ("do", "are", "")):
        turns = rf"(?P<verb>(?:start|run|begin|happen|open|close|end){s})"
        agent = rf"(?P<done>{_DONE}|handled|controlled|decided|caused|served|joined) by (?!\w+ing\b)"
        place = rf"(?P<done>{_PLACED}) (?:in|on|at|under) (?!\w+ing\b|the same|order|case|general)"
        yield rf"^{_SUBJECT} {turns} (?:again )?{_TIME}", _of_subject(f"When {does} {{subject}} {{verb}}?")
        yield rf"^{_SUBJECT} (?P<verb>(?:last|take){s}) {_SPAN}", _of_subject(f"How long {does} {{subject}} {{verb}}?")
        yield (
            rf"^{_SUBJECT} {be} (?P<done>{_DONE}|valid) for {_SPAN}",
            _of_subject(f"How long {be} {{subject}} {{done}}?"),
        )
        yield rf"^{_SUBJECT} {be} (?P<done>{_DONE}) {_TIME}", _of_subject(f"When {be} {{subject}} {{done}}?")
        yield rf"^{_SUBJECT} {be} {place}", _of_subject(f"Where {be} {{subject}} {{done}}?")
        yield rf"^{_SUBJECT} {be} {agent}", _of_subject(f"What {be} {{subject}} {{done}} by?")
    thing = r"(?:an?|the|at least|only|\d|[A-Z`]|\w+s\b)"
    yield (
        rf"^{_SUBJECT} (?P<modal>must|should|can) (?P<do>{_TRANSITIVE}) {thing}",
        _of_subject("What {modal} {subject} {do}?"),
    )
    for says, asks in (("must not", "must"), ("cannot", "can"), ("should not", "should")):
        yield rf"^{_SUBJECT} {says} (?P<do>{_TRANSITIVE}) ", _of_subject(f"What {asks} {{subject}} not {{do}}?")
    yield rf"^{_SUBJECT} is (?:an?|the|called) (?!following|same|one\b)", _of_subject("What is {subject}?")
    yield rf"^{_SUBJECT} are (?:an? |the )(?!following|same|ones\b)", _of_subject("What are {subject}?")
    yield rf"^{_SUBJECT} are (?:[\w-]+ )?[a-z]+s (?:that|which|used|for|of) ", _of_subject("What are {subject}?")


_PATTERNS = tuple((re.compile(pattern), build) for pattern, build in _patterns())
