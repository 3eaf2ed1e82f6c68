"""Clarifying questions and suggestions beside an answer, or in place of one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rag_serving.records.decisions import Clarification, ClarificationOption, Contender, Decision
from rag_serving.records.passages import Lock
from rag_serving.text.orders import orders_assistant

EXAMPLES = "You can ask, for example:"
CLOSEST_PAGE = "The page that comes closest:"
WHICH_PART = "Which part should I explain?"
GO_DEEPER = "Which one should I go deeper on?"
LONGEST_LABEL = 160
_NOT_SURE = "I’m not sure which feature you mean. Are you asking about {}? If not, tell me the feature name."
_ONE_WEAK = "I think you mean {}. Is that right?"
_AMBIGUOUS = "Do you mean {} or {}?"


def asked_back(decision: Decision) -> Clarification:
    """Return the clarifying question for an unclear query, with the likely pages as options. A page whose title gives
    orders to an assistant is not named."""
    likely = _nameable(decision.contenders)
    names = (f"{each.label} ({each.category})" if each.category else each.label for each in likely)
    options = tuple(_option_of(each) for each in likely)
    if decision.action == "no_match" or not likely:
        return Clarification(WHICH_PART)
    if decision.action == "ambiguous" and len(likely) > 1:
        return Clarification(_AMBIGUOUS.format(*names), options)
    if len(likely) == 1:
        return Clarification(_ONE_WEAK.format(likely[0].label), options)
    return Clarification(_NOT_SURE.format(likely[0].label), options)


def deeper(contenders: Sequence[Contender]) -> Clarification:
    """Return the follow-up below short answers about two topics."""
    return Clarification(GO_DEEPER, tuple(_option_of(each) for each in _nameable(contenders)))


def _nameable(contenders: Sequence[Contender]) -> list[Contender]:
    named = [each for each in contenders if not orders_assistant(each.label)][:2]
    return [replace(each, label=_shortened(each.label), category=_shortened(each.category)) for each in named]


def _shortened(text: str) -> str:
    """Return a text on one line of at most `LONGEST_LABEL` characters."""
    line = " ".join(text[: 4 * LONGEST_LABEL].split())
    return line if len(line) <= LONGEST_LABEL else line[: LONGEST_LABEL - 1] + "…"


def _option_of(contender: Contender) -> ClarificationOption:
    return ClarificationOption(
        contender.label, "meaning", contender.query, contender.url or None, contender.category or None
    )


def closest(lock: Lock) -> Clarification | None:
    """Return the page nearest to the question, which the asker may read because it was locked for him."""
    if not lock.passages:
        return None
    chunk = lock.passages[0].chunk
    label = " → ".join(chunk.heading_path) or chunk.title
    return Clarification(CLOSEST_PAGE, (ClarificationOption(label, "page", url=chunk.url),))


def examples_told(examples: Sequence[str]) -> Clarification | None:
    """Return example questions as options; None without any."""
    options = tuple(ClarificationOption(example, "question", query=example) for example in examples)
    return Clarification(EXAMPLES, options) if options else None


def spelling_told(question: str, corrections: Mapping[str, str]) -> Clarification | None:
    """Return which words were read as others, with the question that has them as typed: quoted words are read as they
    are. `corrections`: words of the pages by the words that were typed."""
    if not corrections:
        return None
    read = ", ".join(f"“{word}” as “{correction}”" for word, correction in corrections.items())
    asked = question
    for word in corrections:
        asked = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", f'"{word}"', asked, count=1)
    typed = ", ".join(f"“{word}”" for word in corrections)
    option = ClarificationOption(f"Look for {typed} as typed", "spelling", query=asked)
    return Clarification(f"Read {read}.", (option,))


def joined(*parts: Clarification | None) -> Clarification | None:
    """Return several as one, in their order; None if there is none."""
    told = [part for part in parts if part]
    if not told:
        return None
    return Clarification(" ".join(part.text for part in told), tuple(each for part in told for each in part.options))
