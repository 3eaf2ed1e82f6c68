"""What the reader is told of passages that do not agree, or that are no longer in force.

Belongs here: the wording. Does not belong here: which passages differ (`answering.comparing.conflicts`), which is the
more current and why (`answering.comparing.precedence`).

Nothing of a page is repeated but its number, a word of a fixed list and the number of what took its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rag_serving.answering.citations import shown_numbers
from rag_serving.answering.comparing.conflicts import Differing, Other
from rag_serving.answering.comparing.precedence import Opening, Standing, mark_of
from rag_serving.answering.comparing.values import differ, measures
from rag_serving.records.claims import Claim, Verdict
from rag_serving.records.passages import Lock
from rag_serving.text.currency import Mark, docs_version, names_version
from rag_serving.text.question_types import kind_of


def told_as_versions(verdicts: Sequence[Verdict], differs: Differing, lock: Lock) -> str | None:
    """Return which version of a documentation each of the passages that differ is about; None where one is of none, or
    two are of the same."""
    numbers, versions = _numbers(verdicts), dict[int, str]()
    for claim in (differs.claim, *(other.claim for other in differs.others)):
        passage = lock.passage(claim.index)
        if claim in numbers and passage and (version := docs_version(passage.chunk.title)):
            versions[numbers[claim]] = version
    if len(versions) <= len(differs.others) or len(set(versions.values())) < len(versions):
        return None
    told = [f"[{number}] is about version {version}" for number, version in sorted(versions.items())]
    return f"{', '.join(told)}."


def told_to_differ(verdicts: Sequence[Verdict], differs: Differing) -> str | None:
    """Return which passages do not agree and which of them is the more current, as far as both sides stand; None where
    one does not."""
    numbers = _numbers(verdicts)
    others = [other for other in differs.others if other.claim in numbers]
    if differs.claim not in numbers or not others:
        return None
    shown = dict.fromkeys(sorted([numbers[differs.claim], *(numbers[other.claim] for other in others)]))
    told = " and ".join(f"[{number}]" for number in shown)
    reasons = dict.fromkeys(_reason(differs, other, numbers) for other in others)
    return " ".join([f"The pages do not agree: {told} say different things.", *filter(None, reasons), _READ])


def told_out_of_force(question: str, verdicts: Sequence[Verdict], lock: Lock, opening: Opening) -> str | None:
    """Return which cited passages are marked as no longer in force, and how; None where none is. A version that the
    question names is not."""
    marked: dict[Mark, list[str]] = {}
    for index, number in shown_numbers(verdicts).items():
        candidate = lock.passage(index)
        if candidate is None or names_version(question, docs_version(candidate.chunk.title) or "-"):
            continue
        if mark := mark_of(candidate.chunk, opening(candidate.chunk)):
            marked.setdefault(mark, []).append(f"[{number}]")
    return " ".join(_marked(mark, numbers) for mark, numbers in marked.items()) or None


def told_other_value(question: str, verdicts: Sequence[Verdict], lock: Lock) -> str | None:
    """Return which value the page gives where a yes-or-no question names another one: `The page says 7 days.`"""
    first = next((v for v in verdicts if v.outcome != "dropped" and v.index and v.start is not None), None)
    asked = measures(question)
    if first is None or first.start is None or not asked or kind_of(question) != "yes_no":
        return None
    passage = lock.passage(first.index or 0)
    unit = passage.chunk.parts.unit_at(first.start) if passage else None
    if passage is None or unit is None or not differ(asked, measures(text := unit.of(passage.chunk.text))):
        return None
    given = next((found[0] for found in _FIGURE.finditer(text) if differ(asked, measures(found[0]))), None)
    return f"The page says {given.strip()}." if given else None


_FIGURE = re.compile(r"(?<!\d)(?<!\d[.,])\d++(?:[.,]\d++)*+[ \u00a0]?(?:%|[^\W\d_]+)")
_READ = "Read both before you rely on one."


def _numbers(verdicts: Sequence[Verdict]) -> Mapping[Claim, int]:
    """Return the number that each claim that stands is shown under."""
    numbers = shown_numbers(verdicts)
    return {v.claim: numbers[v.index] for v in verdicts if v.outcome != "dropped" and v.index}


def _reason(differs: Differing, other: Other, numbers: Mapping[Claim, int]) -> str:
    """Return why one of two is the more current; empty where nothing tells."""
    if other.precedence is None:
        return ""
    pair = (other.standing, numbers[other.claim]), (differs.standing, numbers[differs.claim])
    (leading, first), (behind, second) = pair if other.precedence.is_first else pair[::-1]
    match other.precedence.reason:
        case "asked":
            return f"[{first}] is about {_version(leading)}, which was asked for."
        case "mark":
            return f"[{second}] is marked as {behind.mark.told if behind.mark else ''}."
        case "version":
            return f"[{first}] is about {_version(leading)}, [{second}] about {_version(behind)}."
        case "change":
            return f"[{first}] tells of a change of what [{second}] says."
        case "date":
            return f"[{first}] was updated on {_day(leading)}, [{second}] on {_day(behind)}."


def _marked(mark: Mark, numbers: Sequence[str]) -> str:
    place = "in a section" if mark.of == "section" else "on a page"
    verb = "stands" if len(numbers) == 1 else "each stand"
    return f"{' and '.join(numbers)} {verb} {place} that is marked as {mark.told}."


def _version(found: Standing) -> str:
    return ".".join(map(str, found.version or ()))


def _day(found: Standing) -> str:
    return f"{found.updated_at:%Y-%m-%d}" if found.updated_at else ""
