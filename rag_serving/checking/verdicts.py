"""The verdict of the pages on a claim: verbatim, otherwise, the closest unit, or absent. A passage that says of itself
that it is no longer in force neither bears a claim out nor contradicts it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rag_serving.answering.comparing.typed import mark_of
from rag_serving.answering.quotes import MIN_QUOTE_BYTES, weight
from rag_serving.answering.selection.completion import kept_together
from rag_serving.answering.selection.layout import Layout
from rag_serving.answering.selection.selector import StoredSimilarity
from rag_serving.answering.selection.statements import heading_text
from rag_serving.answering.verification import forms_claimed, forms_shown
from rag_serving.checking.otherwise import (
    ComparedStatement,
    OtherValue,
    Relation,
    Weights,
    compared,
    known,
    likeness,
    may_speak_of_the_same,
    relation,
    relation_of,
)
from rag_serving.records.answers import ClaimVerdict
from rag_serving.records.passages import Chunk
from rag_serving.text.analyzer import analyze
from rag_serving.text.normalization import folded
from rag_serving.text.orders import is_order, orders_assistant
from rag_serving.text.small_talk import remark_of
from rag_serving.text.structure import Structure, columns_of, line_of
from rag_serving.text.units import Unit, cells_of, is_whole, units, word_count

_FEWEST_WORDS = {"table": 2}
_MOST_UNITS = 80  # of a part that is laid out by itself, longer lists and tables aside
_LONGEST_CLAIM = 2_000
_HEADING = re.compile(r"[ \t]*(#{1,6})\s")
_OPINION = re.compile(
    r"\b(?:i|we) (?:\w+ly )?(?:think|believe|feel|guess|hope|suppose|reckon|love|like|prefer|wish|(?:am|are) sure)\b"
    r"|\b(?:in (?:my|our) (?:opinion|view|experience)|imho|personally|it seems to me|arguably|hopefully)\b"
    r"|\b(?:ich|wir) (?:glaube|denke|finde|meine|hoffe)n?\b|\bmeiner meinung nach\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class TextClaim:
    """A unit of a checked text. `start` and `end`: its offsets in the whole text."""

    unit: Unit
    chunk: Chunk  # the part of the text around it
    start: int
    end: int
    claims: bool  # whether it states anything

    @property
    def text(self) -> str:
        return self.unit.of(self.chunk.text)

    @cached_property
    def said(self) -> str:
        """Return what it says by itself: an item with its lead-in, the cells of a row with their columns."""
        return kept_together(Layout(self.chunk), self.unit.start, self.unit.end).text

    @cached_property
    def alone(self) -> str:
        """Return the same without the sentences around it; what hangs from others is not cut off."""
        return Layout(self.chunk).alone(self.unit).text


def claims_of(text: str) -> Iterator[TextClaim]:
    """Yield the units of a text in order, headings and questions too."""
    for start, chunk in _parts(text):
        for unit in chunk.parts.units:
            yield TextClaim(unit, chunk, start + unit.start, start + unit.end, _claims(chunk.text, unit))


def _claims(text: str, unit: Unit) -> bool:
    """Return whether a unit states something: no heading, question, greeting, opinion, order, code or lead-in."""
    said = unit.of(text)
    plain = said.strip(" *_`\"'“”")
    if unit.kind in ("heading", "header", "code") or not plain or plain[-1] in "?？:：" or len(said) > _LONGEST_CLAIM:
        return False
    if word_count(text, unit.start, unit.end) < _FEWEST_WORDS.get(unit.kind, 3):
        return False
    return not (remark_of(said) or _OPINION.search(said) or is_order(said) or orders_assistant(said))


def _parts(text: str) -> Iterator[tuple[int, Chunk]]:
    """Yield a text in parts, each with where it begins: a section, or a run of paragraphs of a long one."""
    found = units(text)
    headings, first = list[str](), 0
    for place, unit in enumerate(found):
        begins = unit.kind == "heading"
        if (begins or (place - first >= _MOST_UNITS and unit.kind == "sentence")) and place > first:
            yield _part(text, found[first:place], tuple(headings))
            first = place
        if begins:
            line = text[text.rfind("\n", 0, unit.start) + 1 : unit.start]
            level = _HEADING.match(line)
            headings[(len(level[1]) - 1 if level else 0) :] = [unit.of(text)]
    if found:
        yield _part(text, found[first:], tuple(headings))


def _part(text: str, found: Sequence[Unit], headings: tuple[str, ...]) -> tuple[int, Chunk]:
    start = found[0].begin
    end = text.find("\n", found[-1].end)
    end = len(text) if end < 0 else end
    moved = list[Unit]()
    for unit in found:
        marked = unit.marked - start if unit.marked >= 0 else -1
        moved.append(unit._replace(start=unit.start - start, end=unit.end - start, marked=marked))
    title = headings[0] if headings else ""
    chunk = Chunk("", "", 0, 0, "", title, headings, "", "", text[start:end], start, end, "paragraph",
                  structure=Structure(tuple(moved)).encode())  # fmt: skip
    return start, chunk


_WORD, _SEPARATOR = re.compile(r"\w+(?:[.'-]\w+)*"), re.compile(r"(?:\t|(?<!\\)\|)\s*")
_IN_BRACKETS = re.compile(r"[(\[]([^\W\d_]+|%)[)\]]\s*$")
_HYPHENATED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_MARKUP = str.maketrans("", "", "`*_")
_PLAIN = frozenset({"yes", "no", "true", "false", "none", "all", "any", "on", "off", "x", "-", "–", "n/a"})
_NOT_YET = ("proposed", "planned", "draft")  # is what a page says, and was never in force before
_LONGEST = 600  # characters of a unit that is compared
_CLOSE = 0.5  # of the claim's weight that the closest unit must have
_LIKELY, _KNOWN = 2.5, 0.71  # least likeness, and share of the claim's weight in the section, of what contradicts it
_ABOUT_AS_LIKE = 1.0  # how much less likeness a unit may have that has the claim's own value


@dataclass(frozen=True)
class Said:
    """A unit of a passage, with all that it states: itself, and of a row each cell."""

    unit: Unit
    statements: tuple[ComparedStatement, ...]


@dataclass(frozen=True)
class Row:
    """A row of a table whose columns are named; cells in lower case, without markup."""

    unit: Unit
    columns: tuple[str, ...]
    cells: tuple[str, ...]


@dataclass(frozen=True)
class CheckedPassage:
    """A passage that claims are compared with, read once."""

    chunk: Chunk
    opening: Sequence[Chunk] = ()

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.chunk)

    @cached_property
    def is_in_force(self) -> bool:
        mark = mark_of(self.chunk, self.opening)
        return mark is None or mark.word in _NOT_YET

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
        """Return the statements of its units."""
        return tuple(Said(unit, tuple(self._statements(unit))) for unit in self._quotable if self._may_compare(unit))

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Return the rows of its tables whose columns are named."""
        text, found = self.chunk.text, list[Row]()
        for unit in self._quotable:
            if unit.kind == "table":
                cells = cells_of(line_of(unit, text))
                columns = columns_of(self.chunk.parts.header_of(unit, text))
                if len(columns) == len(cells) > 1:
                    found.append(Row(unit, tuple(columns), tuple(map(_plain_cell, cells))))
        return tuple(found)

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

    def _statements(self, unit: Unit) -> list[ComparedStatement]:
        text, beside = self.chunk.text, self._beside(unit)
        if unit.kind != "table":
            alone = self.layout.alone(unit).text if unit.kind == "list" else ""
            clauses = [part for part in unit.of(text).split("; ") if part]
            said = dict.fromkeys((unit.of(text), *([alone] if alone else []), *(clauses if len(clauses) > 1 else [])))
            return [ComparedStatement(each, f"{beside}\n{unit.of(text)}", text) for each in said]
        cells = cells_of(line_of(unit, text))
        columns = columns_of(self.chunk.parts.header_of(unit, text))
        row = f"{beside}\n{' '.join((*columns, *cells))}"
        if len(columns) != len(cells):
            return [ComparedStatement(unit.of(text), row, text)]
        key = f"{columns[0]} {cells[0]}"
        pairs = zip(columns[1:], cells[1:], strict=True)
        return [
            ComparedStatement(f"{key} {column} {_measured(cell, column)}", row, text) for column, cell in pairs if cell
        ]

    def _beside(self, unit: Unit) -> str:
        """Return a unit's implied subjects: its headings, its lead-in, and the sentence before it."""
        text, place = self.chunk.text, self.layout.units.index(unit)
        above = next((each for each in reversed(self.layout.units[:place]) if each.block != unit.block), None)
        before = self.layout.units[place - 1] if place else None
        said = [each.of(text) for each in (above, before) if each and each.kind in ("sentence", "list", "header")]
        return "\n".join((self.chunk.space, self.chunk.headings, self.layout.lead_in(unit), *said))


@dataclass(frozen=True)
class ClaimFinding:
    """The verdict of the pages on a claim. `said`: the words of the claim that are on the page."""

    verdict: ClaimVerdict
    passage: CheckedPassage | None = None
    unit: Unit | None = None
    said: str = ""
    values: OtherValue | None = None  # the claim's and the page's, where they alone differ


def finding(
    claim: TextClaim, passages: Sequence[CheckedPassage], weights: Weights, similarity: StoredSimilarity | None = None
) -> ClaimFinding:
    """Return what some passages, the likeliest first, say of a claim. `weights`: of its terms; `similarity`: of units
    to it, by their vectors."""
    standing = [passage for passage in passages if passage.is_in_force]
    sayings = dict.fromkeys((claim.said, *([claim.alone] if claim.unit.kind == "sentence" else [])))
    sayings |= dict.fromkeys(_HYPHENATED.sub("", said) for said in tuple(sayings))
    sayings |= dict.fromkeys(said.replace("—", "--") for said in tuple(sayings))
    for said in sayings:
        for form in forms_claimed(said):
            for passage in standing:
                if unit := passage.own.get(form):
                    return ClaimFinding("verbatim", passage, unit, said)
    for passage in standing:
        if unit := _same_row(claim, passage):
            return ClaimFinding("verbatim", passage, unit, kept_together(passage.layout, unit.start, unit.end).text)
    ours = ComparedStatement(claim.alone, "\n".join(claim.chunk.heading_path))
    rows = [ClaimFinding("otherwise", each, unit) for each in standing if (unit := _other_row(claim, each))]
    cells = _cells(claim)
    if rows and not any(row.cells == cells for each in standing for row in each.rows):
        return rows[0]
    if found := _otherwise(claim, ours, standing, weights, similarity):
        return found
    return _closest(ours, passages, weights)


@dataclass(frozen=True)
class _Compared:
    """A unit whose statement has another value than a claim, or the same; `likeness`: None without vectors."""

    passage: CheckedPassage
    said: Said
    statement: ComparedStatement
    relation: Relation
    is_certain: bool  # both speak of the same in nearly the same words
    likeness: float | None = None

    @property
    def may_contradict(self) -> bool:
        """Return whether it has another value, and surely of the same."""
        if self.relation == "other" and not self.is_certain:
            return self.likeness is not None and self.likeness >= _LIKELY
        return self.relation == "other"


def _otherwise(
    claim: TextClaim,
    ours: ComparedStatement,
    passages: Sequence[CheckedPassage],
    weights: Weights,
    similarity: StoredSimilarity | None,
) -> ClaimFinding | None:
    """Return the unit that has another value of what a claim speaks of, if none about as like has its own."""
    found = [
        one
        for rank, passage in enumerate(passages, start=1)
        for one in _compared(claim, ours, passage, rank, weights, similarity)
    ]
    others = [one for one in found if one.may_contradict]
    best = max(others, key=lambda one: (one.is_certain, one.likeness or 0.0), default=None)
    if best is None:
        return None
    least = -math.inf if best.likeness is None else best.likeness - _ABOUT_AS_LIKE
    if any(one.relation == "same" and (one.likeness is None or one.likeness > least) for one in found):
        return None
    values = compared(ours, best.statement)
    return ClaimFinding("otherwise", best.passage, best.said.unit, values=values if isinstance(values, tuple) else None)


def _compared(
    claim: TextClaim,
    ours: ComparedStatement,
    passage: CheckedPassage,
    rank: int,
    weights: Weights,
    similarity: StoredSimilarity | None,
) -> Iterator[_Compared]:
    """Yield the statements of a passage that have a value of a claim, or another; of a unit that has it no other."""
    for said in passage.said:
        certain = [relation(ours, statement, weights) for statement in said.statements]
        is_one = "same" in certain and (said.unit.kind == "table" or "other" not in certain or ";" in claim.text)
        for statement, found in zip(said.statements, certain, strict=True):
            is_certain, found = found is not None, "same" if is_one else found
            is_known = known(ours, statement, weights) >= _KNOWN
            if not found and similarity and is_known and may_speak_of_the_same(ours, statement, weights):
                found = relation_of(compared(ours, statement))
            if found:
                cosine = _cosine(passage, said.unit, similarity) if similarity else None
                like = None if cosine is None else likeness(ours, statement, weights, cosine, rank)
                yield _Compared(passage, said, statement, found, is_certain, like)


def _cosine(passage: CheckedPassage, unit: Unit, similarity: StoredSimilarity) -> float | None:
    """Return how like a claim a unit is; items and rows, which say little by themselves, at least as their headings."""
    cosine, heading = similarity([unit.of(passage.chunk.text), heading_text(passage.chunk)])
    return cosine if cosine is None or unit.kind == "sentence" else max(cosine, heading or 0.0)


def _same_row(claim: TextClaim, passage: CheckedPassage) -> Unit | None:
    """Return the row whose cells are those of a claim, which names no columns."""
    named = claim.unit.kind == "table" and claim.chunk.parts.header_of(claim.unit, claim.chunk.text)
    if named or len(cells := _columns(claim.text.strip())) < 2:
        return None
    forms, text = forms_claimed(" | ".join(cells)), passage.chunk.text
    rows = (unit for unit in passage.layout.units if unit.kind == "table" and unit not in passage.layout.directed)
    return next((unit for unit in rows if not forms.keys().isdisjoint(forms_shown(unit.of(text)))), None)


def _other_row(claim: TextClaim, passage: CheckedPassage) -> Unit | None:
    """Return the row that a claim names and gives the value of another row for, or repeats but for one cell."""
    said = f" {' '.join(_WORD.findall(claim.text.lower()))} "
    cells, terms = _cells(claim), frozenset(analyze(said))
    for row in passage.rows:
        if len(cells) == len(row.cells) > 2 and cells[0] == row.cells[0]:
            differing = [(one, two) for one, two in zip(cells, row.cells, strict=True) if one != two]
            if len(differing) == 1 and all(differing[0]):
                return row.unit
        elif _is_of(terms, row) and _exchanges(said, terms, row, passage.rows):
            return row.unit
    return None


def _is_of(terms: frozenset[str], row: Row) -> bool:
    named = frozenset(analyze(row.cells[0]))
    return bool(named) and named <= terms


def _columns(row: str) -> list[str]:
    return [cell.rstrip() for cell in _SEPARATOR.split(row)]


def _cells(claim: TextClaim) -> tuple[str, ...]:
    return tuple(map(_plain_cell, _columns(claim.text.strip(" |\n"))))


def _exchanges(said: str, terms: frozenset[str], row: Row, rows: Sequence[Row]) -> bool:
    """Return whether words give the value of another row, whose name they do not have, in place of a row's own."""
    others = [each for each in rows if each.columns == row.columns and not _is_of(terms, each)]
    for place in range(1, len(row.columns)):
        own = row.cells[place]
        values = {each.cells[place] for each in others} - {own}
        if own and not _names(said, own) and any(_is_name(value) and _names(said, value) for value in values):
            return True
    return False


def _measured(cell: str, column: str) -> str:
    """Return a figure with the unit that its column has in brackets."""
    unit = _IN_BRACKETS.search(column)
    return f"{cell} {unit[1]}" if unit and cell.strip("`*_ ").replace(".", "").isdigit() else cell


def _names(said: str, cell: str) -> bool:
    words = " ".join(_WORD.findall(cell))
    return bool(words) and f" {words} " in said


def _is_name(cell: str) -> bool:
    return not any(character.isdigit() for character in cell) and cell not in _PLAIN and len(cell.split()) < 4


def _plain_cell(cell: str) -> str:
    return " ".join(folded(cell).translate(_MARKUP).lower().split())


def _closest(ours: ComparedStatement, passages: Sequence[CheckedPassage], weights: Weights) -> ClaimFinding:
    best, most = ClaimFinding("absent"), _CLOSE
    total = sum(weights.get(word, 1.0) for word in ours.words) or 1.0
    for passage in passages:
        for each in passage.said:
            for statement in each.statements:
                shared = ours.words & statement.around if ours.words & statement.words else ()
                if (have := sum(weights.get(word, 1.0) for word in shared) / total) > most:
                    best, most = ClaimFinding("closest", passage, each.unit), have
    return best
