"""An option that an asker picks: "yes", "2", "the second one", "expenses".

Belongs here: telling a pick from a question, which option it names. Does not belong here: what options there are
(`answering.clarifying`), finding them again (`reading`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_serving.records.refusal import ClarificationOption
from rag_serving.text.analyzer import analyze
from rag_serving.text.normalization import caseless

_LONGEST_CHARS, _MOST_WORDS = 200, 10
_END = " .,;:!?\"'“”‘’()[]"

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
    bare = text.strip(_END)
    return len(bare) <= _LONGEST_CHARS and _FORM.fullmatch(bare) is not None


def may_pick(text: str, answer: str) -> bool:
    """Return whether a text may be the label of an option.

    `answer`: what the client says that the turn before was answered; where it is known, it has to hold the text.
    """
    bare = _MEANT.sub("", text.strip(_END))
    if not bare or len(bare) > _LONGEST_CHARS or len(bare.split()) > _MOST_WORDS:
        return False
    return not answer or caseless(bare) in caseless(answer)


def picked(text: str, options: Sequence[ClarificationOption]) -> ClarificationOption | None:
    """Return the option that a text names by `yes`, its number or its label; None where it names none, or several."""
    bare = text.strip(_END)[:_LONGEST_CHARS]
    if not options or not bare:
        return None
    if form := _FORM.fullmatch(bare):
        number = _number(form, len(options))
        return options[number] if 0 <= number < len(options) else None
    bare = _MEANT.sub("", bare)
    names = [{caseless(each.strip(_END)) for each in (option.label, option.query or "")} for option in options]
    named = [option for option, known in zip(options, names, strict=True) if caseless(bare) in known]
    terms = set(analyze(bare))
    named = named or [option for option in options if terms and terms <= set(analyze(option.label))]
    return named[0] if len(named) == 1 else None


def _number(form: re.Match[str], count: int) -> int:
    """Return which of `count` options a form names, from 0."""
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
