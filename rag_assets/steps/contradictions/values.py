"""Statements of different pages, or sections of one, that give another value for the same thing.

A false alarm costs more than a miss. Nothing is compared that a page marks as past, or gives as an example; versions of
a page are expected to differ; and where three pages have three values under the same words, those words are a property
of each page. Whether two statements differ is in `comparing.conflicts`.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Literal, NamedTuple

from rag_assets.steps.contradictions.findings import LintFinding, Quote
from rag_serving.answering.comparing.conflicts import Compared, difference
from rag_serving.answering.comparing.typed import Field, Measures, is_close, is_setting, measures
from rag_serving.answering.selection.signs import QuestionFeatures
from rag_serving.records.passages import Chunk
from rag_serving.text.analyzer import SEPARATED_NAME, analyze
from rag_serving.text.currency import (
    family_of,
    mark_of_headings,
    mark_of_labels,
    mark_of_sentences,
    version_of,
    without_versions,
)
from rag_serving.text.polarity_words import NEGATIONS, SPELLED, contradict

VERSION = 2
"""Raised when other findings are made of the same chunks."""
_ALIKE, _OPPOSITE = 0.7, 0.85  # Jaccard similarity of the words of sentences; the same where one denies the other
_MORE = 2  # words that a denial adds: "does not"
_FEWEST = 2  # words of such a sentence; of so few all are the same
_LONGEST = 600  # characters of a unit
_MOST_MEMBERS = 40  # units of one block; more are no one's value
_MOST_VALUES = 2  # of pages that speak of one thing
_OPENING = 3  # chunks of a page that may mark it as past
_ABOUT = 100  # characters
_FIGURE = re.compile(rf"\d|\b(?:{'|'.join(SPELLED)})\b", re.IGNORECASE)
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_NAME = re.compile(rf"{SEPARATED_NAME}|(?<=[\w,;:]\s)[`*_\"']*(?!{_MONTHS})[A-Z]\w*|`[^`]+`")
_GIVES_VALUES = re.compile(r"(?<!valid )\b(?:default|value|status|state|support|requir)", re.IGNORECASE)
_NOT = frozenset(["cannot"])  # in one word it is no "not" to `polar`
_NEGATING = frozenset(analyze(" ".join(NEGATIONS)))
_CLOCK = re.compile(r"(?<![\d:])\d{1,2}:\d\d(?![\d:])")
_CONDITION = re.compile(r"\b(?:if|when|unless|otherwise|while|where)\b", re.IGNORECASE)
_REFERENCE = re.compile(
    r"\b(?:chapter|listing|figure|table|section|step|part|appendix|page)s?\s\d|^\d{1,2}[.)][^\W\d]", re.IGNORECASE
)
_CLAUSE = re.compile(r"; |: |, (?:and|but|which|or|so|because|since)\b| and (?:are|is|can|have|has|must)\b")
_WORD = re.compile(r"[^\W\d_]{2}")
_VERSION_FOLDER = re.compile(r"(?:v|version-?)?\d+(?:\.(?:\d+|x))*", re.IGNORECASE)
_ASIDE = re.compile(
    r"\b(?:examples?|samples?|templates?|benchmarks?|meeting|minutes of|agenda|changelog|release notes|history|todo)\b",
    re.IGNORECASE,
)
_GENERAL = frozenset(
    analyze(
        "overview introduction summary short glance key facts notes note details general faq frequently asked questions"
        " limits quotas defaults settings configuration options parameters reference rules requirements policy usage"
        " troubleshooting remember checklist conclusion how long many much often large what when"
    )
)
"""Stems of headings under which a page says again what it says elsewhere."""
_SUPPOSED = re.compile(
    r"\b(?:e\.g|for (?:example|instance)|such as|suppose|assum(?:e|ing)|say,|let['’]s)", re.IGNORECASE
)


_Unit = tuple[str, int, int]
Kind = Literal["field", "figure", "denial"]
LEAST: Mapping[Kind, float] = {"figure": _ALIKE, "denial": _OPPOSITE}
"""Similarity from which statements are compared by their words; fields are by a block that they share."""


class StatedEntry(NamedTuple):
    """A statement, and what others are compared with it by: the blocks of its fields, or its words."""

    kind: Kind
    terms: tuple[str, ...]
    said: Compared

    @property
    def place(self) -> tuple[str, int, str, int, int, Kind]:
        """Return what it is sorted by, so that no result depends on the order of pages."""
        chunk, unit = self.said.chunk, self.said.unit
        return chunk.page_id, chunk.chunk_idx, chunk.chunk_id, unit.start, unit.end, self.kind


class Side(NamedTuple):
    """One of two statements that differ."""

    chunk_id: str
    start: int
    end: int
    value: str  # what it gives, for telling values apart
    quote: Quote

    @property
    def unit(self) -> _Unit:
        return self[:3]


class Pair(NamedTuple):
    """Two statements that differ, and what in."""

    about: str
    confidence: float
    block: str  # of which both are; empty: their words are nearly the same
    space: str
    one: Side
    two: Side


def entries(chunk: Chunk) -> Iterator[StatedEntry]:
    """Yield what a passage states, but for what it marks as past, or gives as an example."""
    headings = [heading for heading in chunk.heading_path if heading != chunk.title]
    if mark_of_headings(headings) is not None or any(map(_ASIDE.search, headings)):
        return
    for unit in chunk.parts.units:
        if unit.kind in ("heading", "header", "code") or unit.end - unit.start > _LONGEST:
            continue
        said = Compared(unit, chunk, analyze)
        if blocks := tuple(dict.fromkeys("\0".join(block) for block in _blocks(said))):
            yield StatedEntry("field", blocks, said)
        if unit.kind != "table" and not bool(_SUPPOSED.search(said.text) or _REFERENCE.search(said.text)):
            for part in filter(_says_enough, _clauses(said)):
                if _FIGURE.search(part.text):
                    yield StatedEntry("figure", tuple(sorted(part.words)), part)
                else:
                    yield StatedEntry("denial", tuple(sorted(_undenied(part))), part)


def entry_at(kind: Kind, terms: Sequence[str], chunk: Chunk, start: int, end: int) -> StatedEntry:
    """Return an entry of a passage again, of which nothing else was kept."""
    unit = chunk.parts.unit_at(start)
    assert unit is not None
    return StatedEntry(kind, tuple(terms), Compared(unit._replace(start=start, end=end), chunk, analyze))


def pairs(compared: Iterable[StatedEntry], *, versions: bool = False) -> Iterator[Pair]:
    """Yield the entries that give another value for the same thing, in an order of their own. `compared`: entries of
    pages that are in force; `versions`: whether versions of one page are compared, too."""
    said = sorted(compared, key=lambda entry: entry.place)
    yield from _of_fields([entry for entry in said if entry.kind == "field"], versions)
    for kind in LEAST:
        yield from _of_sentences([entry for entry in said if entry.kind == kind], LEAST[kind], versions)


def contradictions(differing: Iterable[Pair]) -> list[LintFinding]:
    """Return what pages say of the same thing with another value, of all pairs that differ."""
    groups = _groups(sorted(differing, key=lambda pair: (pair.one.unit, pair.two.unit, pair.block)))
    findings: dict[tuple[Quote, ...], LintFinding] = {}
    for group in groups:
        sides = [side for pair in group for side in (pair.one, pair.two)]
        if len({side.value for side in sides}) > _MOST_VALUES:
            continue
        quotes = {(side.quote.page_id, side.quote.text): side.quote for side in sides}
        best = max(group, key=lambda pair: (pair.confidence, pair.about))
        shown = tuple(sorted(quotes.values(), key=lambda quote: (quote.title, quote.text, quote.page_id)))
        findings[shown] = LintFinding("contradiction", best.space, best.about, shown, best.confidence)
    return list(findings.values())


def is_past(passages: Sequence[Chunk]) -> bool:
    """Return whether a page, given its passages, says of itself that it is not in force, or an example."""
    first = passages[0]
    if mark_of_headings((first.title,)) or mark_of_labels(first.labels) or _ASIDE.search(first.title):
        return True
    opening = (chunk for chunk in passages if chunk.chunk_idx < _OPENING)
    said = (([unit.of(chunk.text) for unit in chunk.parts.units], chunk.heading_path) for chunk in opening)
    return any(mark_of_sentences(sentences, path[-1] if path else "") for sentences, path in said)


def _of_fields(said: Sequence[StatedEntry], versions: bool) -> Iterator[Pair]:
    """Yield units that give another value of one setting, or of one cell of tables under like headings."""
    blocks: dict[str, list[Compared]] = defaultdict(list)
    for entry in said:
        for block in entry.terms:
            blocks[block].append(entry.said)
    for block, members in blocks.items():
        if not 1 < len(members) <= _MOST_MEMBERS:
            continue
        key, name, place = block.split("\0")
        about = f"{key} {name}".strip()
        chosen = [pair for pair in combinations(members, 2) if place or not all(map(_is_of_its_page, pair))]
        yield from _differing(about, analyze(about), chosen, versions, 0.95 if is_setting(key) else 0.9, block)


def _blocks(said: Compared) -> Iterator[tuple[str, str, str]]:
    """Yield what a unit gives a value of, by name, column and place: a setting wherever it stands, a row under headings
    like its own."""
    chunk = said.chunk
    heading = without_versions(chunk.heading_path[-1]) if chunk.heading_path else ""
    for field in said.fields:
        key, name = _plain(field.key), _plain(field.name)
        if not _gives_value(field):
            continue
        if key == "default" or (is_setting(key) and name):
            yield key, name, _family(chunk)
        elif not is_setting(key) and (name or " " in key):  # one word is of what its page is about
            yield key, name, heading
        if is_setting(key) and (not name or "default" in name):
            yield key, "default", ""
    is_told = said.unit.kind != "table" and len(said.identifiers) == 1 and "default" in said.text.lower()
    if is_told and not _CONDITION.search(said.text):
        yield next(iter(said.identifiers)), "default", ""


def _are_of_one_form(one: Compared, two: Compared) -> bool:
    """Return whether two units such as `Members: 12` are of what their pages are about: these have titles of some words
    in common, and others that they differ in."""
    first, second = (frozenset(analyze(said.chunk.title)) for said in (one, two))
    is_form = bool(first & second and first - second and second - first)
    return is_form and all(len(said.fields) == 1 and not said.fields[0].name for said in (one, two))


def _is_of_its_page(said: Compared) -> bool:
    """Return whether a unit is of a table of settings, whose values are those of the part that its page is about."""
    return any(field.name for field in said.fields)


def _gives_value(field: Field) -> bool:
    is_value = not field.name or _GIVES_VALUES.search(field.name) or measures(field.value)
    return bool(is_value and _WORD.search(field.key))


def _of_sentences(said: Sequence[StatedEntry], least: float, versions: bool) -> Iterator[Pair]:
    """Yield sentences of nearly the same words of which one gives another figure, or denies the other."""
    words = [frozenset(entry.terms) for entry in said]
    for first, second, alike in _alike(words, least):
        one, two = said[first].said, said[second].said
        terms = words[first] & words[second]
        if one.text == two.text or not _are_comparable(one.chunk, two.chunk, terms, versions):
            continue
        if _names(one) == _names(two) and (_value_figures(one) != _value_figures(two) or _is_denial(one, two)):
            yield from _differing(_shared(one, two), terms, [(one, two)], versions, 0.8 * alike)


def _undenied(said: Compared) -> frozenset[str]:
    return said.words - said.polar - _NOT


def _says_enough(said: Compared) -> bool:
    topic = len(_undenied(said))
    return topic >= _FEWEST or (topic > 0 and len(said.words) > _FEWEST)


def _is_denial(one: Compared, two: Compared) -> bool:
    """Return whether two sentences are the same but for a "not"; a denied condition, or a clause more, denies none."""
    is_turned = one.is_negative != two.is_negative or contradict(one.text, two.text)
    if not is_turned or _CONDITION.search(one.text) or not (one.polar ^ two.polar) <= _NEGATING:
        return False
    shared, both = _undenied(one) & _undenied(two), _undenied(one) | _undenied(two)
    return len(shared) >= _OPPOSITE * len(both) and abs(len(one.text.split()) - len(two.text.split())) <= _MORE


def _clauses(said: Compared) -> Iterator[Compared]:
    """Yield a sentence, and its parts with a figure: what is added to a statement does not make it another one."""
    yield said
    start = said.unit.start
    ends = [start + match.start() for match in _CLAUSE.finditer(said.text)]
    for begin, end in pairwise([start, *ends, said.unit.end]) if ends else ():
        if _FIGURE.search(said.chunk.text, begin, end):
            yield Compared(said.unit._replace(start=begin, end=end), said.chunk, said.analyze)


def _alike(words: Sequence[frozenset[str]], least: float) -> Iterator[tuple[int, int, float]]:
    """Yield pairs of sets with a Jaccard similarity from `least` on.

    Two such sets share one of their rarest words (prefix filtering: Bayardo, Ma, Srikant, WWW 2007).
    """
    counts = Counter(word for each in words for word in each)
    by_word: dict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(words):
        size = len(each)
        rarest = sorted(each, key=lambda word: (counts[word], word))
        near: set[int] = set()
        for word in rarest[: size - math.ceil(least * size) + 1]:
            near.update(by_word[word])
            by_word[word].append(place)
        for other in near:
            other_size = len(words[other])
            if least * size <= other_size <= size / least:
                shared = len(each & words[other])
                if (alike := shared / (size + other_size - shared)) >= least:
                    yield other, place, alike


def _differing(
    about: str,
    terms: Iterable[str],
    chosen: Iterable[tuple[Compared, Compared]],
    versions: bool,
    confidence: float,
    block: str = "",
) -> Iterator[Pair]:
    weights = dict.fromkeys(terms, 1.0)
    asked = QuestionFeatures("", "yes_no", frozenset(), frozenset(weights), weights, frozenset(), negates=False)
    for one, two in chosen:
        if not _are_comparable(one.chunk, two.chunk, weights.keys(), versions) or _are_of_one_form(one, two):
            continue
        if difference(asked, one, two) == 0 or _has_one_other_figure(one, two) or _is_other_number(about, one, two):
            yield Pair(about[:_ABOUT], confidence, block, one.chunk.space, _side(one), _side(two))


def _has_one_other_figure(one: Compared, two: Compared) -> bool:
    """Return whether two sentences have the same figures but for one: `at 08:00 for 5 minutes`."""
    if one.unit.kind == "table" or one.unit.kind != two.unit.kind or one.bounds != two.bounds or one.past or two.past:
        return False
    figures = [{("time", at) for at in _CLOCK.findall(each.now)} | _figures(each.measures) for each in (one, two)]
    only = [figures[0] - figures[1], figures[1] - figures[0]]
    if len(figures[0]) != len(figures[1]) or [len(each) for each in only] != [1, 1]:
        return False
    (kind, first), (other_kind, second) = *only[0], *only[1]
    return kind == other_kind and (isinstance(first, str) or isinstance(second, str) or not is_close(first, second))


def _is_other_number(about: str, one: Compared, two: Compared) -> bool:
    """Return whether two cells give another whole number, which is not rounded as a measure is: a port, a count."""
    values = [
        {field.value for field in each.fields if f"{_plain(field.key)} {_plain(field.name)}".strip() == about}
        for each in (one, two)
    ]
    return values[0] != values[1] and all(len(each) == 1 and min(each).isdecimal() for each in values)


def _figures(found: Measures) -> set[tuple[str, float | str]]:
    return {(kind, figure) for kind, figures in found.items() for figure in figures}


def _are_comparable(one: Chunk, two: Chunk, terms: Collection[str], versions: bool) -> bool:
    """Return whether two passages are of different pages that are comparable, or of one page of which at least one
    heading names nothing but what both statements are about: others may name what each one is about."""
    if one.page_id != two.page_id:
        return are_comparable(one, two, versions)
    paths = (one.heading_path, two.heading_path), (two.heading_path, one.heading_path)
    own = (analyze(" ".join(heading for heading in path if heading not in other)) for path, other in paths)
    return _version(one) == _version(two) and any(stems and _GENERAL.union(terms).issuperset(stems) for stems in own)


def are_comparable(one: Chunk, two: Chunk, versions: bool) -> bool:
    """Return whether two passages are of different pages of one space, and of the same version of what they are about;
    with `versions` also of two versions of one page."""
    if one.page_id == two.page_id:
        return False
    if _family(one) == _family(two) and _version(one) != _version(two):
        return versions and _headings(one) == _headings(two)
    return one.space == two.space and _version(one) == _version(two)


def _family(chunk: Chunk) -> str:
    folders = [part for part in (chunk.source_file or "").split("/") if not _VERSION_FOLDER.fullmatch(part)]
    return "/".join(folders) if chunk.source_file else "\n".join(family_of(chunk.title, chunk.space))


def _headings(chunk: Chunk) -> list[str]:
    return [heading for heading in chunk.heading_path if heading != chunk.title and not is_setting(heading)]


def _version(chunk: Chunk) -> object:
    """Return the version that a passage is of: that of its folder, heading, title or space."""
    folders = (chunk.source_file or "").split("/")[:-1]
    named = [folder for folder in folders if _VERSION_FOLDER.fullmatch(folder)]
    return named, version_of(chunk.heading_path, "" if named else chunk.title, "" if named else chunk.space)


def _groups(differing: Sequence[Pair]) -> Iterable[list[Pair]]:
    above: dict[_Unit, _Unit] = {}

    def top(unit: _Unit) -> _Unit:
        while (other := above.setdefault(unit, unit)) != unit:
            above[unit] = above[other]
            unit = other
        return unit

    for pair in differing:
        above[top(pair.one.unit)] = top(pair.two.unit)
    groups: dict[_Unit, list[Pair]] = defaultdict(list)
    for pair in differing:
        groups[top(pair.one.unit)].append(pair)
    return groups.values()


def _side(said: Compared) -> Side:
    """Return a statement with the whole sentence or row that it is of, and what it gives: figures, else its words."""
    unit, chunk = said.unit, said.chunk
    whole = chunk.parts.unit_at(unit.start) or unit
    figures = sorted(map(str, _value_figures(said)))
    value = "\n".join(figures) if figures else f"{said.is_negative} {_plain(said.text)}"
    return Side(chunk.chunk_id, unit.start, unit.end, value, Quote.of(chunk, whole.of(chunk.text)))


def _value_figures(said: Compared) -> frozenset[object]:
    return frozenset({*_figures(measures(said.text)), *_CLOCK.findall(said.text)})


def _names(said: Compared) -> frozenset[str]:
    return frozenset(name.strip("`*_\"'").lower() for name in _NAME.findall(said.text))


def _shared(one: Compared, two: Compared) -> str:
    """Return the words of a sentence that another has as well, with a mark where they differ."""
    others = set(two.text.split())
    words = [word if word in others else "…" for word in one.text.split()]
    return " ".join(word for place, word in enumerate(words) if word != "…" or words[place - 1 : place] != ["…"])


def _plain(text: str) -> str:
    return " ".join(text.strip(" `*_:").lower().split())
