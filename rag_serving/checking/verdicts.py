"""What the pages say of a claim: it stands there word for word, they say otherwise, what comes closest, or nothing.

Belongs here: comparing a claim with the passages that were found for it. Does not belong here: finding them (`check`),
typed values (`otherwise`), what is word for word (`answering.verification`).

A passage that says of itself that it is no longer in force neither bears a claim out nor contradicts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rag_serving.answering.comparing.precedence import mark_of
from rag_serving.answering.quotes import MIN_QUOTE_BYTES, weight
from rag_serving.answering.selection.completion import kept_together
from rag_serving.answering.selection.layout import Layout
from rag_serving.answering.verification import forms_claimed, forms_shown
from rag_serving.checking.claims import TextClaim
from rag_serving.checking.otherwise import Statement, relation
from rag_serving.records.checks import ClaimVerdict
from rag_serving.records.passages import Chunk
from rag_serving.text.structure import columns_of, line_of
from rag_serving.text.units import Unit, cells_of, is_whole

_LONGEST = 600  # characters of a unit that is compared
_CLOSE = 0.5  # of the claim's weight that the closest unit must have


@dataclass(frozen=True)
class Said:
    """A unit of a passage, with all that it states: itself, and of a row each cell."""

    unit: Unit
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Passage:
    """A passage that claims are compared with, read once."""

    chunk: Chunk
    opening: Sequence[Chunk] = ()

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.chunk)

    @cached_property
    def is_in_force(self) -> bool:
        return mark_of(self.chunk, self.opening) is None

    @cached_property
    def own(self) -> Mapping[tuple[str, ...], Unit]:
        """Return its units by the words that are shown of each."""
        found: dict[tuple[str, ...], Unit] = {}
        for unit in self._quotable:
            shown = kept_together(self.layout, unit.start, unit.end).text
            if is_whole(shown):
                found |= {form: found.get(form, unit) for form in forms_shown(shown)}
        return found

    @cached_property
    def said(self) -> tuple[Said, ...]:
        """Return what its units state."""
        return tuple(Said(unit, tuple(self._statements(unit))) for unit in self._quotable if self._may_compare(unit))

    @cached_property
    def _quotable(self) -> list[Unit]:
        text, directed = self.chunk.text, self.layout.directed
        return [
            unit
            for unit in self.layout.units
            if unit.kind not in ("heading", "header") and unit not in directed
            and is_whole(said := unit.of(text)) and weight(said) >= MIN_QUOTE_BYTES
        ]  # fmt: skip

    def _may_compare(self, unit: Unit) -> bool:
        said = unit.of(self.chunk.text)
        return unit.kind != "code" and len(said) <= _LONGEST and said.rstrip()[-1] not in "?:"

    def _statements(self, unit: Unit) -> list[Statement]:
        text, beside = self.chunk.text, "\n".join((self.chunk.headings, self.layout.lead_in(unit)))
        if unit.kind != "table":
            return [Statement(unit.of(text), beside)]
        cells = cells_of(line_of(unit, text))
        columns = columns_of(self.chunk.parts.header_of(unit, text))
        if len(columns) != len(cells):
            return [Statement(unit.of(text), beside)]
        key = f"{columns[0]} {cells[0]}"
        pairs = zip(columns[1:], cells[1:], strict=True)
        return [Statement(f"{key} {column} {cell}", beside) for column, cell in pairs if cell]


@dataclass(frozen=True)
class Finding:
    """What the pages say of a claim. `said`: the words of the claim that stand on the page."""

    verdict: ClaimVerdict
    passage: Passage | None = None
    unit: Unit | None = None
    said: str = ""


def finding(claim: TextClaim, passages: Sequence[Passage], weights: Mapping[str, float]) -> Finding:
    """Return what some passages, the likeliest first, say of a claim. `weights`: of its terms."""
    standing = [passage for passage in passages if passage.is_in_force]
    sayings = dict.fromkeys((claim.said, *([claim.alone] if claim.unit.kind == "sentence" else [])))
    for said in sayings:
        for form in forms_claimed(said):
            for passage in standing:
                if unit := passage.own.get(form):
                    return Finding("verbatim", passage, unit, said)
    ours = Statement(claim.alone, "\n".join(claim.chunk.heading_path))
    other: Finding | None = None
    is_same = False
    for passage in standing:
        for each in passage.said:
            found = {relation(ours, statement, weights) for statement in each.statements}
            is_same = is_same or "same" in found
            if "other" in found and other is None:
                other = Finding("otherwise", passage, each.unit)
    if other and not is_same:
        return other
    return _closest(ours, passages, weights)


def _closest(ours: Statement, passages: Sequence[Passage], weights: Mapping[str, float]) -> Finding:
    """Return the unit that has most of what a claim speaks of."""
    best, most = Finding("absent"), _CLOSE
    total = sum(weights.get(word, 1.0) for word in ours.words) or 1.0
    for passage in passages:
        for each in passage.said:
            for statement in each.statements:
                shared = ours.words & statement.around if ours.words & statement.words else ()
                if (have := sum(weights.get(word, 1.0) for word in shared) / total) > most:
                    best, most = Finding("closest", passage, each.unit), have
    return best
