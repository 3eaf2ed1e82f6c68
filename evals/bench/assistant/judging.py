"""Judge what was done with a question against what should be.

Belongs here: what an answer counts as, shares by kind of question, their JSON shape and tables.
Does not belong here: asking (`evals.bench.assistant.__main__`), reading the questions (`evals.bench.assistant.gold`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evals.bench.assistant.gold import Action, Asked, Pages, Turn
from rag_serving.records.answers import Answer

Done = Action | Literal["unavailable"]

OFFERED = 2  # options that a clarification is judged by
_MEANT = frozenset({"page", "meaning"})  # kinds of an option that says what a question may mean


@dataclass(frozen=True)
class Judged:
    """One judged turn: what was done with it.

    Attributes:
        is_page: whether all right pages are cited; None where it was not answered, or none is right.
        is_offered: whether all pages it may mean are among the options; None where it was not asked back.
        is_shown: whether all right pages are among passages that are shown without confidence.
        shown: titles of what was cited or offered, in order.
        is_leak: something shows that this reader may not read.
        is_closest: passages are shown without confidence, right or not.
    """

    turn: Turn
    done: Done
    is_page: bool | None
    is_offered: bool | None
    is_shown: bool
    shown: tuple[str, ...]
    is_leak: bool = False
    is_closest: bool = False

    @property
    def is_action(self) -> bool:
        return self.done in self.turn.actions

    @property
    def is_right(self) -> bool:
        """Return whether the right thing was done with the right pages, and nothing leaked."""
        return self.is_action and self.is_page is not False and self.is_offered is not False and not self.is_leak

    @property
    def is_right_by_status(self) -> bool:
        """Return the same where passages that are shown without confidence count as an answer, as their status says."""
        if not self.is_closest:
            return self.is_right
        return "answer" in self.turn.actions and self.is_shown and not self.is_leak


@dataclass(frozen=True)
class JudgedChain:
    """A judged question or chain: right where every turn is."""

    asked: Asked
    turns: tuple[Judged, ...]

    @property
    def is_action(self) -> bool:
        return all(turn.is_action and not turn.is_leak for turn in self.turns)

    @property
    def is_right(self) -> bool:
        return all(turn.is_right for turn in self.turns)


def done_with(answer: Answer) -> Done:
    """Return what an answer counts as: passages shown without confidence, and a question back that offers nothing it
    may mean, count as not found."""
    if answer.status == "unavailable":
        return "unavailable"
    if answer.status == "refused":
        return "refuse"
    if answer.outcome == "told":
        return "answer"
    return "clarify" if answer.status == "clarify" and any(_meant(answer)) else "not_found"


def judge(turn: Turn, answer: Answer, titles: Mapping[str, str]) -> Judged:
    """Judge an answer; `titles` are those of the pages by their id, and by their address without
    fragment."""
    done = done_with(answer)
    cited = tuple(dict.fromkeys(titles[citation.page_id] for citation in answer.citations))
    options = tuple(_title(option, titles) for option in _meant(answer))
    told = " ".join((answer.answer, answer.clarification.text if answer.clarification else "", *cited, *options))
    return Judged(
        turn=turn,
        done=done,
        is_page=_all_of(turn.pages, cited) if done == "answer" and turn.pages else None,
        is_shown=answer.outcome == "closest" and bool(turn.pages) and _all_of(turn.pages, cited),
        is_offered=_all_of(turn.offered, options[:OFFERED]) if done == "clarify" and turn.offered else None,
        shown=options if done == "clarify" else cited,
        is_leak=any(title in told for title in turn.never),
        is_closest=answer.outcome == "closest",
    )


def _meant(answer: Answer) -> list[Mapping[str, Any]]:
    options = answer.clarification.payload()["options"] if answer.clarification else []
    return [option for option in options if option.get("kind", option.get("category")) in _MEANT]


def _title(option: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    address = str(option.get("url") or "").partition("#")[0]
    return titles.get(address, str(option["label"]))


def _all_of(pages: Pages, shown: Sequence[str]) -> bool:
    return all(any(title in page for title in shown) for page in pages)


def shares(judged: Sequence[JudgedChain]) -> dict[str, dict[str, Any]]:
    """Return counts and shares by kind of question, and of all of them."""
    kinds = dict.fromkeys(chain.asked.kind for chain in judged)
    found = {kind: _share([chain for chain in judged if chain.asked.kind == kind]) for kind in kinds}
    return {**found, "all": _share(judged)}


def _share(judged: Sequence[JudgedChain]) -> dict[str, Any]:
    turns = [turn for chain in judged for turn in chain.turns]
    return {
        "questions": len(judged),
        "right_action": _mean(chain.is_action for chain in judged),
        "right": _mean(chain.is_right for chain in judged),
        "right_by_status": _mean(all(turn.is_right_by_status for turn in chain.turns) for chain in judged),
        "right_or_closest": _mean(all(turn.is_right or turn.is_shown for turn in chain.turns) for chain in judged),
        "turns": len(turns),
        "turns_right_action": _mean(turn.is_action for turn in turns),
        "right_page": _mean(turn.is_page for turn in turns if turn.is_page is not None),
        "answered": sum(turn.is_page is not None for turn in turns),
        "clarification_precision": _mean(turn.is_offered for turn in turns if turn.is_offered is not None),
        "clarified": sum(turn.is_offered is not None for turn in turns),
        "leaks": sum(turn.is_leak for turn in turns),
    }


def _mean(values: Iterable[bool]) -> float | None:
    listed = list(values)
    return round(sum(listed) / len(listed), 4) if listed else None


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the shares as a Markdown table."""
    lines = [
        "| kind | questions | right action | right action and page | by status | or closest | of turns: right action"
        " | right page | offers the right page | leaks |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind, row in found.items():
        cells = (
            kind,
            row["questions"],
            _told(row["right_action"]),
            _told(row["right"]),
            _told(row["right_by_status"]),
            _told(row["right_or_closest"]),
            f"{_told(row['turns_right_action'])} of {row['turns']}",
            f"{_told(row['right_page'])} of {row['answered']}",
            f"{_told(row['clarification_precision'])} of {row['clarified']}",
            row["leaks"],
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _told(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def misses(judged: Iterable[JudgedChain]) -> list[str]:
    """Return a line for each turn that did not come out right: what was done, what should be, what was shown."""
    return [
        f"{chain.asked.id} {number}: {turn.turn.question!r}: {turn.done} {list(turn.shown)},"
        f" expected {' or '.join(sorted(turn.turn.actions))}"
        f" {[sorted(page) for page in ((turn.done == 'clarify' and turn.turn.offered) or turn.turn.pages)]}"
        for chain in judged
        for number, turn in enumerate(chain.turns, start=1)
        if not turn.is_right
    ]
