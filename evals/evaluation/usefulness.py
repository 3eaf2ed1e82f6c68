"""Judge the usefulness of answers: known facts about a question against its answer's text and citations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args
from urllib.parse import unquote

from evals.evaluation.evaluate import page_of
from evals.evaluation.gold import GoldPlace, GoldQuestion, plain
from evals.evaluation.metrics import wilson_interval
from rag_serving.records.answers import Answer, Citation

Outcome = Literal["useful", "closest", "poor", "wrong", "declined"]
"""All facts, told with confidence under a link to a right section; the same, shown as what comes closest; some of the
facts, or all without a right section; none of them, or an answer where there is none; nothing told that would help."""
NOT_A_QUESTION = "not_a_question"

_MARKER = re.compile(r"\[\d{1,3}\]")


@dataclass(frozen=True)
class JudgedUse:
    """A question and what its answer is worth."""

    gold: GoldQuestion
    outcome: Outcome

    @property
    def is_right(self) -> bool:
        """Return whether it is the right outcome: a useful answer, or none if there is none."""
        return self.outcome == ("useful" if self.gold.answerable else "declined")

    @property
    def is_shown(self) -> bool:
        """Return whether the reader sees all facts under a link to a right section, or nothing if there is
        nothing."""
        return self.is_right or (self.gold.answerable and self.outcome == "closest")

    @property
    def group(self) -> str:
        if self.gold.kind == NOT_A_QUESTION:
            return NOT_A_QUESTION
        return "answerable" if self.gold.answerable else "unanswerable"


@dataclass(frozen=True)
class UseShares:
    """The outcomes of one kind of question."""

    name: str
    outcomes: Counter[Outcome]
    right: int
    shown: int  # right, or all facts among what comes closest

    def payload(self) -> dict[str, Any]:
        """Return counts, and the shares that are right, or right or shown as closest, with their 95 % intervals."""
        counts = {outcome: self.outcomes[outcome] for outcome in get_args(Outcome)}
        total = self.outcomes.total()
        shares = {
            name: {key: round(value, 4) for key, value in vars(wilson_interval(number, total)).items()}
            for name, number in (("right", self.right), ("right_or_closest", self.shown))
        }
        return {"questions": total, **counts, **shares}


def judge_use(gold: GoldQuestion, answer: Answer) -> JudgedUse:
    """Return the value of an answer."""
    return JudgedUse(gold, _outcome(gold, answer))


def _outcome(gold: GoldQuestion, answer: Answer) -> Outcome:
    is_told = answer.outcome == "told" and bool(answer.citations)
    if not gold.answerable:
        return "wrong" if is_told else "declined"
    said = facts_said(gold, answer)
    is_whole = all(said) and any(is_right_section(gold.places, citation) for citation in answer.citations)
    if not is_told:
        return "closest" if is_whole else "declined"
    if is_whole:
        return "useful"
    return "poor" if any(said) else "wrong"


def facts_said(gold: GoldQuestion, answer: Answer) -> list[bool]:
    """Return for each fact whether answer or quotes say it; without facts the gold quotes are the only one."""
    quotes = (citation.quote for citation in answer.citations)
    text = "\n".join([_MARKER.sub(" ", answer.answer), *quotes])
    return [any(holds(text, spelling) for spelling in fact) for fact in gold.facts or (gold.quotes,)]


def holds(text: str, fact: str) -> bool:
    """Return whether a text says a fact in whole words; white space, typography and case aside."""
    return bool(re.search(rf"(?<![^\W_]){re.escape(plain(fact))}(?![^\W_])", plain(text)))


def is_right_section(places: Sequence[GoldPlace], citation: Citation) -> bool:
    """Return whether a citation is of one of the sections: by its anchor, or where none is known by its heading."""
    return is_right_place(places, page_of(citation), citation.url, citation.heading_path)


def is_right_place(places: Sequence[GoldPlace], page: str, url: str, heading_path: Sequence[str]) -> bool:
    """Return whether a passage is of one of the sections: by its anchor, or where none is known by its heading."""
    anchor, heading = unquote(url.partition("#")[2]), (heading_path or ("",))[-1]
    return any(
        page == place.page
        and (unquote(place.anchor) == anchor if place.anchor else plain(place.heading) == plain(heading))
        for place in places
    )


def shares(judged: Sequence[JudgedUse]) -> list[UseShares]:
    """Return the outcomes of answerable questions, unanswerable ones, and non-questions; then of each kind."""
    groups = list(_by(judged, [case.group for case in judged]))
    known = {group.name for group in groups}
    kinds = _by(judged, [case.gold.kind for case in judged])
    return [*groups, *(kind for kind in kinds if kind.name and kind.name not in known)]


def _by(judged: Sequence[JudgedUse], names: Sequence[str]) -> Iterator[UseShares]:
    for name in sorted(set(names)):
        those = [case for case, own in zip(judged, names, strict=True) if own == name]
        outcomes = Counter(case.outcome for case in those)
        yield UseShares(name, outcomes, sum(case.is_right for case in those), sum(case.is_shown for case in those))


def use_payload(judged: Sequence[JudgedUse]) -> dict[str, Any]:
    """Return the JSON shape: counts and shares by name, without the questions."""
    return {group.name: group.payload() for group in shares(judged)}


def use_table(judged: Sequence[JudgedUse]) -> str:
    """Return the same as a Markdown table."""
    heads = ("kind", "questions", *get_args(Outcome), "right (95 %)", "right or closest (95 %)")
    rows = [heads, ("---", *["---:"] * (len(heads) - 1)), *map(_row, shares(judged))]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(group: UseShares) -> tuple[str, ...]:
    found = group.payload()
    both = [found.pop(name) for name in ("right", "right_or_closest")]
    cells = (f"{share['mean']:.0%} ({share['low']:.0%} to {share['high']:.0%})" for share in both)
    return (group.name.replace("_", " "), *map(str, found.values()), *cells)
