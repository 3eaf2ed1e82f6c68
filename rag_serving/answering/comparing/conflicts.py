"""Passages that give another value for what was asked: an answer must not choose one of them in silence. Two units
differ only where they speak of the same: nearly the same words beside the figure, the same cell of two tables, or the
default of one setting. Two settings, two products, a minimum and a maximum are no difference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rag_serving.answering.comparing.typed import (
    Field,
    Measures,
    Opening,
    Precedence,
    Standing,
    differ,
    fields,
    is_setting,
    measures,
    precedence,
    settled,
    standing,
)
from rag_serving.answering.selection.layout import Layout
from rag_serving.answering.selection.selector import Quoting, claim_of
from rag_serving.answering.selection.signs import Analyze, QuestionFeatures
from rag_serving.deadline import check
from rag_serving.records.claims import Claim, Verdict
from rag_serving.records.passages import Chunk, Lock
from rag_serving.text.analyzer import SEPARATED_NAME
from rag_serving.text.currency import family_of, versions_in, without_versions
from rag_serving.text.polarity_words import FIGURE_WORDS, contradict, figures_with_units, negations, polarity_words
from rag_serving.text.units import Unit

_ALIKE = 0.6  # Jaccard similarity of the words beside the figures
_OPPOSITE = 0.75  # the same, of sentences of which one denies the other
_MAY_BE_ALIKE = 0.3  # the same of the beginnings of words: fewer are never enough
_FEW = 3  # words
_ABOUT = 0.8  # of the question's weight that both units must have
_LONGEST = 600  # characters of a unit that is compared
_IDENTIFIER = re.compile(SEPARATED_NAME)
_FIGURE = re.compile(r"[\d.,]+")
_WORD = re.compile(r"[^\W\d_]+")
_RANGE = re.compile(r"(?<!\w)\d[\w%]{0,12}\s{0,3}(?:-|–|to|or|and|bis)\s{0,3}\d")
_BOUND_WORDS = "minimum maximum min max lower upper lowest highest least most first last before after"
BOUNDS = frozenset(_BOUND_WORDS.split())
_MARKUP = str.maketrans("", "", "`*_\"'“”")
_VALUES = frozenset({"default", "valu", "status", "state", "support", "requir"})  # stems of columns that give values
_MOST_WORDS = 3  # of a value that is no figure


@dataclass(frozen=True)
class Compared:
    """A unit, read once however many others it is compared with."""

    unit: Unit
    chunk: Chunk
    analyze: Analyze

    @cached_property
    def text(self) -> str:
        return self.unit.of(self.chunk.text)

    @cached_property
    def now(self) -> str:
        """Return the text without a value that it says is past."""
        return self._settled[0]

    @cached_property
    def past(self) -> frozenset[str]:
        """Return the figures that it says are past."""
        return frozenset(figures_with_units(self._settled[1])) if self._settled[1] else frozenset()

    @cached_property
    def measures(self) -> Measures:
        """Return its figures; none where it gives a range."""
        return {} if _RANGE.search(self.now) else measures(self.now)

    @cached_property
    def terms(self) -> frozenset[str]:
        return frozenset(self.analyze(self.text))

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the terms without figures and units."""
        words = (word for word in self.now.split() if word.strip(".,;:").lower() not in FIGURE_WORDS)
        found = self.analyze(" ".join(words))
        return frozenset(term for term in found if not any(character.isdigit() for character in term))

    @cached_property
    def beginnings(self) -> frozenset[str]:
        """Return how its longer words begin: texts that share few of them are not alike, which costs little to see."""
        return frozenset(word[:4] for word in self.text.lower().split() if len(word) > 3)

    @cached_property
    def context(self) -> frozenset[str]:
        """Return its terms with those of its columns, of its setting and of the headings that it stands under."""
        names = " ".join(f"{field.key} {field.name}" for field in self.fields)
        return self.terms.union(self.analyze(f"{self.chunk.headings}\n{names}"))

    @cached_property
    def bounds(self) -> frozenset[str]:
        """Return the words that say which end of a range a figure is."""
        return BOUNDS.intersection(_WORD.findall(self.text.lower()))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return tuple(fields(self.unit, self.chunk))

    @cached_property
    def identifiers(self) -> frozenset[str]:
        return frozenset(name.lower() for name in _IDENTIFIER.findall(self.text))

    @cached_property
    def polar(self) -> frozenset[str]:
        return frozenset(self.analyze(" ".join(polarity_words(self.text))))

    @cached_property
    def is_negative(self) -> bool:
        return negations(self.text) % 2 == 1

    def can_differ(self, asked: QuestionFeatures) -> bool:
        """Return whether it gives a value, and for what is asked."""
        if self.unit.kind in ("heading", "header") or len(self.text) > _LONGEST:
            return False
        gives = self.fields or self.measures or asked.kind == "yes_no"
        return bool(gives) and _is_about(asked, self.context)

    @cached_property
    def _settled(self) -> tuple[str, str]:
        return settled(self.text)


def difference(asked: QuestionFeatures, one: Compared, two: Compared) -> int | None:
    """Return None where two units agree, or speak of different things; where they differ, 1 if the second says that it
    replaces what the first says, -1 if the first does, else 0."""
    if len(two.text) > _LONGEST or two.unit.kind in ("heading", "header"):
        return None
    if not any(rule(asked, one, two) for rule in _RULES):
        return None
    return _replaces(two, one) - _replaces(one, two)


def _replaces(one: Compared, two: Compared) -> bool:
    """Return whether the value that one says is past is the one that two gives."""
    return bool(one.past) and not one.past.isdisjoint(figures_with_units(two.now))


def _is_sentence_with_another_figure(asked: QuestionFeatures, one: Compared, two: Compared) -> bool:
    if one.unit.kind != two.unit.kind or (one.unit.kind == "table" and one.fields and two.fields):
        return False
    if not one.measures or not _may_be_alike(one, two):
        return False
    if not differ(one.measures, two.measures) or one.bounds != two.bounds or _jaccard(one.words, two.words) < _ALIKE:
        return False
    return _is_about(asked, one.terms) and _is_about(asked, two.terms)


def _is_cell_with_another_value(asked: QuestionFeatures, one: Compared, two: Compared) -> bool:
    """Return whether both give a value of the same thing in the same column, and not the same one."""
    if not one.fields or not two.fields or not _is_about(asked, two.context):
        return False
    if _are_other_sections(one.chunk, two.chunk):
        return False
    pairs = [(a, b) for a in one.fields for b in two.fields if _is_same_field(asked, one, a, two, b)]
    if asks := [(a, b) for a, b in pairs if asked.terms.intersection(one.analyze(a.name))]:
        return any(_is_other_value(a, b, one.analyze) for a, b in asks)
    if values := [(a, b) for a, b in pairs if not a.name or _VALUES.intersection(one.analyze(a.name))]:
        return any(_is_other_value(a, b, one.analyze) for a, b in values)
    return len(pairs) == 1 and _is_other_value(*pairs[0], one.analyze)


def _may_be_alike(one: Compared, two: Compared) -> bool:
    """Return whether two units share enough to be compared; of few words that are told by spaces nothing is known."""
    few = min(len(one.beginnings), len(two.beginnings)) < _FEW
    return few or _jaccard(one.beginnings, two.beginnings) >= _MAY_BE_ALIKE


def _is_default_of_the_same_setting(asked: QuestionFeatures, one: Compared, two: Compared) -> bool:
    """Return whether both give the default of one setting, or tell of its change, and not the same figure."""
    shared = one.identifiers & two.identifiers if one.identifiers else frozenset()
    if not shared:
        return False
    wanted = {name.lower() for name in _IDENTIFIER.findall(asked.text)}
    if (wanted and not wanted & shared) or len(one.identifiers | two.identifiers) > len(shared):
        return False
    if one.bounds != two.bounds and "table" not in (one.unit.kind, two.unit.kind):
        return False
    if _are_other_sections(one.chunk, two.chunk):
        return False
    defaults = [_default_of(each) for each in (one, two)]
    return all(defaults) and differ(*defaults) and _is_about(asked, two.context)


def _is_default_of_what_is_asked(asked: QuestionFeatures, one: Compared, two: Compared) -> bool:
    """Return whether both give one default of what is asked, in words of their own: `(default fraction=0.4)`."""
    if "default" not in one.terms or "default" not in two.text.lower() or one.identifiers or two.identifiers:
        return False
    if one.bounds != two.bounds or len(one.measures) != 1 or len(two.measures) != 1:
        return False
    if not differ(one.measures, two.measures) or "default" not in two.terms:
        return False
    shared = (one.words & two.words) - {"default"}
    return bool(shared) and all(_is_about(asked, each.context) for each in (one, two))


def _is_denied(asked: QuestionFeatures, one: Compared, two: Compared) -> bool:
    """Return whether both say the same, and one of them with a "not"."""
    if asked.kind != "yes_no" or one.unit.kind != two.unit.kind or one.unit.kind in ("table", "code"):
        return False
    if not _may_be_alike(one, two):
        return False
    words = [each.words - each.polar for each in (one, two)]
    if _jaccard(*words) < _OPPOSITE or one.measures != two.measures:
        return False
    turned = one.is_negative != two.is_negative
    return turned != contradict(one.text, two.text) and all(_is_about(asked, each.terms) for each in (one, two))


_Rule = Callable[[QuestionFeatures, Compared, Compared], bool]
_RULES: tuple[_Rule, ...] = (
    _is_sentence_with_another_figure,
    _is_cell_with_another_value,
    _is_default_of_the_same_setting,
    _is_default_of_what_is_asked,
    _is_denied,
)


def _is_same_field(asked: QuestionFeatures, one: Compared, a: Field, two: Compared, b: Field) -> bool:
    """Return whether two values are of the same thing: of one setting, or of one row under like headings."""
    analyze = one.analyze
    if frozenset(analyze(a.name)) != frozenset(analyze(b.name)) or bool(a.name) != bool(b.name):
        return False
    keys = frozenset(analyze(a.key)), frozenset(analyze(b.key))
    if not keys[0] or keys[0] != keys[1]:
        return False
    if _IDENTIFIER.search(a.key):
        return True
    return bool(keys[0] & asked.terms) and _headings(one.chunk)[-1:] == _headings(two.chunk)[-1:]


def _are_other_sections(one: Chunk, two: Chunk) -> bool:
    """Return whether two passages are different sections of versions of one page: `Broker` and `Producer` settings."""
    is_family = family_of(one.title, one.space) == family_of(two.title, two.space)
    return is_family and one.page_id != two.page_id and _headings(one)[1:] != _headings(two)[1:]


def _headings(chunk: Chunk) -> list[str]:
    """Return the page's title and the headings of a passage, without versions and the names of settings."""
    below = [heading for heading in chunk.heading_path if heading != chunk.title and not is_setting(heading)]
    return [without_versions(heading) for heading in (chunk.title, *below)]


def _is_other_value(a: Field, b: Field, analyze: Analyze) -> bool:
    first, second = measures(a.value), measures(b.value)
    if first or second:
        return differ(first, second)
    is_named = _IDENTIFIER.search(a.key) or _VALUES.intersection(analyze(a.name or a.key))
    words = [value.translate(_MARKUP).lower().strip(" .;,").split() for value in (a.value, b.value)]
    return bool(is_named) and all(0 < len(each) <= _MOST_WORDS for each in words) and words[0] != words[1]


def _default_of(said: Compared) -> Measures:
    """Return the figures that a unit gives as a default, or as what one changes to; none where it gives neither."""
    for field in said.fields if said.unit.kind == "table" else ():
        if "default" in said.analyze(field.name):
            return measures(field.value)
    return said.measures if said.unit.kind != "table" and (said.past or "default" in said.terms) else {}


def _is_about(asked: QuestionFeatures, terms: frozenset[str]) -> bool:
    """Return whether terms are nearly all of what is asked, figures in the question aside."""
    wanted = [term for term in sorted(asked.terms) if not _FIGURE.fullmatch(term)]
    total = sum(asked.weights.get(term, 0.0) for term in wanted)
    return sum(asked.weights.get(term, 0.0) for term in wanted if term in terms) >= _ABOUT * (total or 1.0)


def _jaccard(one: frozenset[str], two: frozenset[str]) -> float:
    return len(one & two) / (len(one | two) or 1)


_KINDS = ("quantity", "time", "thing", "statement", "yes_no")  # of questions that a value can answer
_MOST_UNITS, _MOST_COMPARED = 8, 200  # of one claim, and of one passage that it is compared with


@dataclass(frozen=True)
class Other:
    """What another page says instead."""

    claim: Claim
    standing: Standing
    precedence: Precedence | None  # of this over the claim that it differs from


@dataclass(frozen=True)
class Differing:
    """A claim, and those of other pages that give another value."""

    claim: Claim
    standing: Standing
    others: tuple[Other, ...]

    def beside(self, claims: Sequence[Claim], may_move: bool = True) -> tuple[Claim, ...]:
        """Return the claims with the others around the one that they differ from, the more current first, none twice.
        `may_move`: whether a claim that was there may change its place."""
        kept = [] if may_move else claims
        around = [other for other in self.others if other.claim not in kept]
        first = [other.claim for other in around if other.precedence and other.precedence.is_first]
        after = [other.claim for other in around if other.claim not in first and other.claim not in claims]
        rest = [claim for claim in claims if claim not in first]
        at = rest.index(self.claim)
        return tuple(dict.fromkeys((*rest[:at], *first, self.claim, *after, *rest[at + 1 :])))


@dataclass(frozen=True)
class Comparison:
    """What a question's passages are compared by. `opening`: the first chunks of a passage's page; without it a passage
    speaks for itself alone."""

    asked: QuestionFeatures
    lock: Lock
    analyze: Analyze
    quote_words: int  # most words of a quote
    opening: Opening = lambda _: ()

    def standing(self, chunk: Chunk) -> Standing:
        """Return how current a passage is."""
        return standing(chunk, self.opening(chunk))

    def chunk(self, index: int | None) -> Chunk | None:
        """Return a passage of the lock; None outside."""
        candidate = self.lock.passage(index or 0)
        return candidate.chunk if candidate else None


def differing(comparison: Comparison, verdicts: Sequence[Verdict]) -> Differing | None:
    """Return the first claim that stands and that other pages differ from; None where they all agree."""
    if comparison.asked.kind not in _KINDS:
        return None
    for verdict in verdicts:
        if verdict.outcome != "dropped" and (found := list(_others(comparison, verdict))):
            cited = comparison.chunk(verdict.index)
            if cited is None:
                return None
            own, asked = comparison.standing(cited), versions_in(comparison.asked.text)
            others = []
            for each in found:
                claim = _cited(each, verdicts) or _quoting(comparison, each)
                its = comparison.standing(comparison.lock.passages[each.index - 1].chunk)
                others.append(Other(claim, its, precedence(its, own, asked, each.changes)))
            return Differing(verdict.claim, own, tuple(others))
    return None


@dataclass(frozen=True)
class _Difference:
    """A unit that differs from a cited one, its passage, and whether it replaces (1) or is replaced (-1)."""

    index: int
    unit: Unit
    changes: int


def _others(comparison: Comparison, verdict: Verdict) -> Iterator[_Difference]:
    cited = comparison.chunk(verdict.index)
    if cited is None:
        return
    asked, analyze, pages = comparison.asked, comparison.analyze, {cited.page_id}
    ours = [Compared(unit, cited, analyze) for unit in _units(verdict, cited)]
    if not (ours := [each for each in ours if each.can_differ(asked)]):
        return
    for index, candidate in enumerate(comparison.lock.passages, start=1):
        check()
        chunk = candidate.chunk
        if chunk.page_id not in pages and (found := _differs(asked, ours, chunk, analyze)):
            pages.add(chunk.page_id)
            yield replace(found, index=index)


def _units(verdict: Verdict, cited: Chunk) -> list[Unit]:
    """Return the units that a claim tells: those that its quote is in, and those that stand in it to the letter."""
    start, end, told = verdict.start or 0, verdict.end or 0, verdict.claim.text
    found = []
    for unit in cited.parts.units:
        is_quoted = unit.start < max(end, start + 1) and start < unit.end
        if is_quoted or (unit.kind not in ("heading", "header", "code") and unit.of(cited.text) in told):
            found.append(unit)
    return found[:_MOST_UNITS]


def _differs(asked: QuestionFeatures, ours: Sequence[Compared], chunk: Chunk, analyze: Analyze) -> _Difference | None:
    layout = Layout(chunk)
    for unit in layout.units[:_MOST_COMPARED]:
        other = Compared(unit, chunk, analyze)
        for our in ours:
            changes = difference(asked, our, other)
            if changes is not None and unit not in layout.directed:
                return _Difference(0, unit, changes)
    return None


def _cited(found: _Difference, verdicts: Sequence[Verdict]) -> Claim | None:
    for verdict in verdicts:
        inside = found.unit.start <= (verdict.start or 0) < found.unit.end
        if verdict.outcome != "dropped" and verdict.index == found.index and inside:
            return verdict.claim
    return None


def _quoting(comparison: Comparison, found: _Difference) -> Claim:
    layout = Layout(comparison.lock.passages[found.index - 1].chunk)
    quoting = Quoting(comparison.asked, comparison.analyze, comparison.quote_words)
    return claim_of(layout.alone(found.unit), found.index, layout.text, quoting)
