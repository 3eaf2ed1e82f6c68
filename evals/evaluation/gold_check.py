"""Whether the entries of a gold set still stand in the pages, and what stands there instead.

Belongs here: comparing quotes and anchors with sections. Does not belong here: reading gold sets (`gold`), asking their
questions (`evaluate`), drafting new ones (`gold_suggest`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rapidfuzz import fuzz, process

from evals.evaluation.gold import GoldQuestion, GoldSet
from rag_serving.artifacts.schema import SECTIONS
from rag_serving.artifacts.store import Store, StoreError, read_table
from rag_serving.config.loading import Config
from rag_serving.text.normalization import fold

# Below this partial ratio the nearest passage has nothing to do with the quote.
_NEAR = 50.0

Lack = Literal["page", "quote", "anchor"]


class GoldLocation(NamedTuple):
    """A section of a page."""

    anchor: str
    text: str


Pages = Mapping[str, Sequence[GoldLocation]]  # sections by page id


@dataclass(frozen=True)
class Stale:
    """An entry that no longer stands in the pages."""

    question: GoldQuestion
    lacks: Lack
    nearest: str = ""  # the nearest quote, or the anchor that the quote stands under now
    nearest_anchor: str = ""

    def line(self) -> str:
        """For people, in one line."""
        what = {
            "page": f"page {', '.join(sorted(self.question.pages))} is gone",
            "quote": f"the quote “{self.question.quotes[0] if self.question.quotes else ''}” is gone",
            "anchor": f"the quote stands no longer under #{self.question.anchor}",
        }[self.lacks]
        instead = f"“{self.nearest}” under #{self.nearest_anchor}" if self.nearest else f"#{self.nearest_anchor}"
        return f"{self.question.id}: {what}" + (f"; nearest: {instead}" if self.nearest_anchor else "")


def live_pages(store: Store, config: Config, tenant: str) -> dict[str, list[GoldLocation]]:
    """Return the sections of the tenant's pages as its sources were synced last; a source without a table has none."""
    pages: dict[str, list[GoldLocation]] = {}
    for source in config.sources_of(tenant):
        try:
            table = read_table(store.source(source) / "sections.parquet", SECTIONS)
        except StoreError:
            continue
        for page, anchor, text in zip(
            *(table[name].to_pylist() for name in ("page_id", "anchor", "text")), strict=True
        ):
            pages.setdefault(page, []).append(GoldLocation(anchor, text))
    return pages


def check_gold(gold: GoldSet, pages: Pages) -> list[Stale]:
    """Return the answerable questions whose page, quote or anchor is gone; one without a quote needs only its page."""
    found = [_stale(question, pages) for question in gold.questions if question.answerable]
    return [stale for stale in found if stale]


def live(gold: GoldSet, stale: Sequence[Stale]) -> GoldSet:
    """Return the questions whose quotes still stand in the pages; an anchor that moved does not make an answer
    wrong."""
    gone = {each.question.id for each in stale if each.lacks != "anchor"}
    return GoldSet(tuple(question for question in gold.questions if question.id not in gone), gold.tenant)


def _stale(question: GoldQuestion, pages: Pages) -> Stale | None:
    places = [place for page in sorted(question.pages) for place in pages.get(page, ())]
    if not places:
        return Stale(question, "page")
    wanted = [plain(quote) for quote in question.quotes]
    holders = [place.anchor for place in places if any(quote in plain(place.text) for quote in wanted)]
    if wanted and not holders:
        return _nearest(question, places)
    if question.anchor and holders and question.anchor not in holders:
        return Stale(question, "anchor", nearest_anchor=holders[0])
    return None


def _nearest(question: GoldQuestion, places: Sequence[GoldLocation]) -> Stale:
    """Return what stands in the pages now that is most like the quote."""
    quote = question.quotes[0]
    best = process.extractOne(quote, [place.text for place in places], scorer=fuzz.partial_ratio, score_cutoff=_NEAR)
    if best is None:
        return Stale(question, "quote")
    text, _, number = best
    part = fuzz.partial_ratio_alignment(quote, text)
    shown = " ".join(_whole_words(text, part.dest_start, part.dest_end).split()) if part else ""
    return Stale(question, "quote", shown, places[number].anchor)


def _whole_words(text: str, start: int, end: int) -> str:
    while start > 0 and text[start - 1].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum():
        end += 1
    return text[start:end]


def plain(text: str) -> str:
    """Return a text as quotes are compared: white space, typography and case aside."""
    return " ".join(fold(text).text.split()).casefold()
