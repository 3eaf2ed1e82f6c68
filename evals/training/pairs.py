"""A question with its known target: the record, its JSON lines, and what trains on it.

Belongs here: the record and its files. Does not belong here: how questions are made (`heading_questions` and others).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rag_assets.evaluation.gold import GoldPlace, GoldQuestion

Source = Literal[
    "heading", "faq", "link", "table", "key_value", "definition", "list", "code", "version", "removed", "near_miss"
]  # fmt: skip
"""Name what of a wiki gave the question. `version`: an older version says it otherwise; `removed`: its target is taken
away; `near_miss`: a part of it is replaced."""


@dataclass(frozen=True)
class Pair:
    """A question and the section that answers it, or, where nothing does, the section that comes closest."""

    question: str
    kind: str  # as in evals/gold/people/README.md
    source: Source
    corpus: str
    page_id: str
    anchor: str
    heading: str
    section_id: str
    title: str = ""
    answerable: bool = True
    facts: tuple[str, ...] = ()  # what a right answer says, as the page writes it
    answer: str = ""  # the sentence, row, item or line of code that says it, where it is known
    group: str = ""  # page, one for all near-duplicates of it: what cross-validation keeps together
    whole_page: bool = False  # any section of the page is right
    masked: bool = False  # to be learnt from with the heading of its section masked
    also: tuple[tuple[str, str, str], ...] = ()  # page, anchor and heading of sections that say nearly the same
    superseded: tuple[tuple[str, str, str], ...] = ()  # the same of sections that an older version has
    without: tuple[str, ...] = ()  # pages that must not be candidates
    replaced: str = ""  # of a near miss: what is another one, as `near_misses` names it
    reworded: str = ""  # how it differs from the first wording

    @property
    def id(self) -> str:
        """Return a name that follows from what the pair says."""
        said = json.dumps([self.question, self.section_id, self.answerable, self.masked], ensure_ascii=False)
        return f"{self.corpus}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"

    def reads(self, question: str, how: str, kind: str = "") -> Pair:
        """Return the same pair in other words."""
        return replace(self, question=question, reworded=how, kind=kind or self.kind)

    def with_heading_masked(self) -> Pair:
        """Return the same pair, to be learnt from with the heading of its section masked."""
        return replace(self, masked=True)

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {"id": self.id, **vars(self)}

    def as_gold(self) -> GoldQuestion:
        """Return the pair as a question of a gold set."""
        places = (GoldPlace(self.page_id, self.anchor, self.heading), *(GoldPlace(*place) for place in self.also))
        return GoldQuestion(
            id=self.id,
            question=self.question,
            answerable=self.answerable,
            pages=frozenset(place.page for place in places) if self.answerable else frozenset(),
            quotes=(self.answer,) if self.answer and self.answerable else (),
            anchor=self.anchor,
            part=self.group,
            kind=self.kind,
            facts=tuple((fact,) for fact in self.facts),
            places=places if self.answerable else (),
        )


def write_pairs(pairs: Iterable[Pair], path: Path) -> Counter[tuple[str, str, str]]:
    """Write a line of JSON for each pair as it comes, each id once, and return how many there are by corpus, source and
    kind."""
    written: Counter[tuple[str, str, str]] = Counter()
    seen: set[str] = set()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for pair in pairs:
            if pair.id not in seen:
                seen.add(pair.id)
                file.write(json.dumps(pair.payload(), ensure_ascii=False) + "\n")
                written[pair.corpus, pair.source, pair.kind] += 1
    return written


def read_pairs(path: Path) -> Iterator[Pair]:
    """Yield the pairs of a file that `write_pairs` wrote."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            row: dict[str, Any] = json.loads(line)
            del row["id"]
            row |= {name: [tuple(place) for place in row[name]] for name in ("also", "superseded")}
            lists: dict[str, Any] = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
            yield Pair(**row | lists)
