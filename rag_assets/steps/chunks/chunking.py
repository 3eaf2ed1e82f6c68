"""Sections to chunks: the passages to embed, search and cite.

A section is cut where the cuts are best over the whole section: every cut and every chunk size has a cost, and dynamic
programming finds the cheapest segmentation (Bellman 1957; Knuth and Plass 1981 do the same for lines of a paragraph).
Greedy filling would leave a crumb at the end of every section. What is too long for one chunk, such as a log of
thousands of lines in a block of code, is cut into windows: each begins with the last lines of the one before, so that
text across a border can be found and quoted.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_serving.access.principals import EVERYONE, intersect_readers
from rag_serving.artifacts.schema import CHUNKS
from rag_serving.config.sections import Ingestion
from rag_serving.config.sources import Profile
from rag_serving.models.protocols import Tokenizer
from rag_serving.text.structure import chunk_structures, is_caption, marks_of, page_anchor, page_at


@dataclass(frozen=True)
class ChunkSize:
    """Lengths in tokens. `aim`: what parts of a longer section aim at. `least`: a shorter one is made only if a section
    allows no other. `most`: the same of a longer one; a section up to here stays one chunk. `stride`: of the
    neighbouring text that is kept on either side as context, never citable. `keeps_runs`: whether lists and tables that
    fit into a chunk are never cut."""

    aim: int
    least: int
    most: int
    stride: int
    keeps_runs: bool = False

    @classmethod
    def about(cls, aim: int, stride: int) -> ChunkSize:
        """Return the bounds that short passages have around an aim: 0.48 and 1.28 of it."""
        return cls(aim, aim * 12 // 25, aim * 32 // 25, stride)

    @classmethod
    def of(cls, profile: Profile, ingestion: Ingestion) -> ChunkSize:
        """Return the sizes of a profile."""
        stride = profile.chunk_stride_tokens
        usual = cls.about(
            profile.chunk_size_tokens or ingestion.chunk_size_tokens,
            ingestion.chunk_stride_tokens if stride is None else stride,
        )
        least, most = profile.chunk_min_tokens or usual.least, profile.chunk_max_tokens or usual.most
        return cls(usual.aim, min(least, usual.aim), max(most, usual.aim), usual.stride, profile.keep_runs)


DEFAULT = ChunkSize.about(250, 75)


VERSION = 7
"""Raised when the same section would give other chunks: unchanged pages are then chunked again."""

APART, _BLOCK, _BLOCKS = 1 << 30, 1 << 13, 1 << 17
"""Where numbers apart begin, in blocks of how many, and how many blocks: up to the last whole number of 32 bits."""

_OF_PAGE = ("page_id", "space", "title", "labels", "updated_at", "lang")
_OF_SECTION = ("version", "section_id", "heading_path", "included_from", "is_boilerplate", "content_hash")
_TOLD_LATER = ("passage_id", "chapter", "section", "page_order", "source_file", "slug", "category")
"""Columns that `document_fields` fills."""
_SENTENCE_END = re.compile(r"(?<=[.!?;:])[\"')\]]*\s+(?=\S)|\n")
_FREE, _ROW, _ITEM, _SENTENCE, _LEAD_IN, _WORD = 0.0, 0.10, 0.05, 0.30, 0.50, 2.0
_RUN = 20.0  # a cut in a list or table that has to stay whole: worse than leaving the bounds on both sides
_OUT_OF_BOUNDS = 4.0
_CHARS_PER_TOKEN = 16
_CONTEXT_CHARS = 40  # per token of the context beside a chunk, at most


@dataclass(frozen=True)
class SectionPiece:
    """A stretch of a section that is never cut, and the price of a cut after it."""

    start: int
    end: int
    kind: str
    cut_after: float
    begins: int  # of a window over a long block: where it begins in a chunk of its own; else `start`

    def size(self, starts: Sequence[int]) -> int:
        """Return its tokens; for text with hardly any for its length, such as base64, a share of its characters."""
        return max(tokens_between(starts, self.start, self.end), (self.end - self.start) // _CHARS_PER_TOKEN, 1)


def build_chunks(sections: pa.Table, pages: pa.Table, tokenizer: Tokenizer, size: ChunkSize = DEFAULT) -> pa.Table:
    """Return chunks of all sections, in page order. `sections`: rows of SECTIONS; `pages`: rows of PAGES, at least
    those the sections belong to; `tokenizer`: counts tokens as the embedding model does; `size`: how long a chunk is
    where its section allows, and how much neighbouring text is kept beside it."""
    page_of = {page["page_id"]: page for page in pages.drop_columns(["body"]).to_pylist()}
    rows = sections.to_pylist()
    offsets = tokenizer.offsets([row["text"] for row in rows])
    columns: dict[str, list[Any]] = {name: [] for name in CHUNKS.columns.names}
    places: dict[str, _ChunkPlaces] = {}
    for section, tokens in zip(rows, offsets, strict=True):
        page = page_of[section["page_id"]]
        for row in _section_chunks(section, page, tokens, size):
            row["chunk_idx"] = places.setdefault(page["page_id"], _ChunkPlaces()).next(section["also_readers"])
            row["chunk_id"] = f"{page['page_id']}:{section['version']}:{row['chunk_idx']}"
            for name, values in columns.items():
                values.append(row[name])
    return pa.table(columns, schema=CHUNKS.arrow)


class _ChunkPlaces:
    """The numbers of a page's chunks: text with readers of its own is numbered apart.

    So the number of a chunk reveals nothing about the amount of hidden text before it. The numbers of each such class
    of readers begin at a digest of it.
    """

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._blocks: dict[str, int] = {}
        self._taken: set[int] = set()

    def next(self, also_readers: str) -> int:
        """Return the next place among the chunks of the same readers."""
        count = self._counts[also_readers]
        self._counts[also_readers] += 1
        if also_readers == EVERYONE:
            return count
        if count % _BLOCK == 0:
            block = int.from_bytes(hashlib.sha256((f"{also_readers} {count}").encode()).digest()[:4]) % _BLOCKS
            while block in self._taken:
                block = (block + 1) % _BLOCKS
            self._taken.add(block)
            self._blocks[also_readers] = block
        return APART + self._blocks[also_readers] * _BLOCK + count % _BLOCK


def _section_chunks(
    section: Mapping[str, Any], page: Mapping[str, Any], tokens: NDArray[np.int32], size: ChunkSize
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one section's chunks, without their place in the page."""
    text: str = section["text"]
    starts = tokens[:, 0].tolist()
    pieces = pieces_of(text, section["blocks"], starts, size)
    if not pieces:
        return
    blocks = [(block["kind"], block["start"], block["end"]) for block in section["blocks"]]
    marks = marks_of(section["blocks"])
    chunks = list(_segmented(pieces, starts, size))
    structures = chunk_structures(text, blocks, [(chunk[0].begins, chunk[-1].end) for chunk in chunks], marks)
    for chunk, structure in zip(chunks, structures, strict=True):
        start, end = chunk[0].begins, chunk[-1].end
        number = page_at(structure.marks, 0)
        anchor = page_anchor(number) if number else section["anchor"]
        before, after = _context(text, starts, start, end, size.stride)
        yield {
            **dict.fromkeys(_TOLD_LATER),
            **{name: page[name] for name in _OF_PAGE},
            **{name: section[name] for name in _OF_SECTION},
            "anchor": anchor,
            "url": f"{page['url']}#{quote(anchor, safe=_FRAGMENT)}",
            "text": text[start:end],
            "start": start,
            "end": end,
            "context_before": before,
            "context_after": after,
            "token_count": tokens_between(starts, start, end),
            "content_type": _content_type(chunk),
            "readers": intersect_readers(page["readers"], section["also_readers"]),
            "page_readers": page["readers"],
            "text_hash": hashlib.sha256(text[start:end].encode()).hexdigest()[:32],
            "structure": structure.encode(),
            "parent_id": (page["ancestors"] or [""])[-1],
        }


_FRAGMENT = "!$&'()*+,;=:@/?-._~"
"""What RFC 3986, section 3.5, allows unescaped in a fragment."""


def pieces_of(
    text: str, blocks: Sequence[Mapping[str, Any]], starts: Sequence[int], size: ChunkSize
) -> list[SectionPiece]:
    """Return the section's atoms as pieces; prose is divided at sentence ends, an atom that is too long at words."""
    pieces: list[SectionPiece] = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        start, end, kind = block["start"], block["end"], block["kind"]
        after = _cut_price(text[start:end], kind, following["kind"] if following else None)
        if kind == "table" and following and is_caption(text[following["start"] : following["end"]]):
            after = _LEAD_IN
        windows = window_cuts(text, start, end)
        inner: list[tuple[int, float]] = [(cut, _WORD) for cut in windows]
        is_prose = kind == "paragraph" or tokens_between(starts, start, end) > size.most
        if is_prose and kind != "code" and not windows:
            inner = _sentence_cuts(text, start, end, starts, size.most)
        borders = [start, *(cut for cut, _ in inner), end]
        for (left, right), price in zip(pairwise(borders), [*(price for _, price in inner), after], strict=True):
            piece = text[left:right]
            first, last = left + len(piece) - len(piece.lstrip()), right - len(piece) + len(piece.rstrip())
            begins = overlapping(text, left, start) if windows and left > start else first
            if last > first:
                pieces.append(SectionPiece(first, last, kind, price, min(first, begins)))
    return _with_whole_runs(pieces, starts, size.most) if size.keeps_runs else pieces


def _with_whole_runs(pieces: Sequence[SectionPiece], starts: Sequence[int], most: int) -> list[SectionPiece]:
    """Return pieces where a cut inside a list or a table that fits into a chunk costs more than any other."""
    kept: list[SectionPiece] = []
    for kind, group in groupby(pieces, key=lambda piece: piece.kind):
        run = list(group)
        if kind in ("list", "table") and sum(piece.size(starts) for piece in run) <= most:
            run = [*(replace(piece, cut_after=_RUN) for piece in run[:-1]), run[-1]]
        kept += run
    return kept


def _segmented(
    pieces: Sequence[SectionPiece], starts: Sequence[int], size: ChunkSize
) -> Iterator[Sequence[SectionPiece]]:
    """Yield the pieces of each chunk; none goes over white space that is longer than a window."""
    gaps = [at for at in range(1, len(pieces)) if pieces[at].start - pieces[at - 1].end > WINDOW_CHARS]
    for left, right in pairwise([0, *gaps, len(pieces)]):
        part = pieces[left:right]
        for first, last in segment([p.size(starts) for p in part], [p.cut_after for p in part], size):
            yield part[first : last + 1]


def segment(sizes: Sequence[int], prices: Sequence[float], size: ChunkSize) -> list[tuple[int, int]]:
    """Return the cheapest segmentation of pieces into chunks, as (first, last) piece of each. `sizes`: tokens of each
    piece; `prices`: price of a cut after each piece; `size`: how long a chunk is."""
    longest, total = size.most, sum(sizes)
    if total <= longest:
        return [(0, len(sizes) - 1)]
    best = [0.0] + [float("inf")] * len(sizes)
    came_from = [0] * (len(sizes) + 1)
    for end in range(1, len(sizes) + 1):
        tokens = largest = 0
        cut = prices[end - 1] if end < len(sizes) else 0.0
        for start in range(end - 1, -1, -1):
            tokens += sizes[start]
            largest = max(largest, sizes[start])
            if tokens - largest > longest and tokens > longest:
                break
            cost = best[start] + cut + _size_cost(tokens, size)
            if cost < best[end]:
                best[end], came_from[end] = cost, start
    chunks = []
    end = len(sizes)
    while end:
        chunks.append((came_from[end], end - 1))
        end = came_from[end]
    return chunks[::-1]


def tokens_between(starts: Sequence[int], start: int, end: int) -> int:
    """Return tokens that begin in [start, end)."""
    return bisect_left(starts, end) - bisect_left(starts, start)


def _size_cost(tokens: int, size: ChunkSize) -> float:
    """Squared distance from the aim, and a step where a chunk leaves its bounds.

    Beyond the step the cost hardly grows: one chunk far too long is better than two a little too long.
    """
    if tokens > size.most:
        return _OUT_OF_BOUNDS + 0.001 * tokens / size.aim
    if tokens < size.least:
        return _OUT_OF_BOUNDS * (1.5 - tokens / size.aim)
    return ((tokens - size.aim) / size.aim) ** 2


def _cut_price(text: str, kind: str, following: str | None) -> float:
    """Return the cost of a cut after an atom: more between rows of a table, or before what it introduces."""
    if kind == "heading" or (kind == "paragraph" and text.rstrip().endswith(":")):
        return _LEAD_IN
    if kind == "paragraph" and following == "table" and is_caption(text):
        return _LEAD_IN
    if kind == following == "table":
        return _LEAD_IN if "\n" in text else _ROW
    return _ITEM if kind == following == "list" else _FREE


def _sentence_cuts(text: str, start: int, end: int, starts: Sequence[int], longest: int) -> list[tuple[int, float]]:
    """Return places and prices of cuts inside prose: after sentences, and about every half of `longest` tokens, at a
    word border if there is one near, where a sentence is too long."""
    cuts: list[tuple[int, float]] = []
    left, step = start, longest // 2
    for right in [*(match.end() for match in _SENTENCE_END.finditer(text, start, end)), end]:
        if tokens_between(starts, left, right) > longest:
            first, last = bisect_left(starts, left), bisect_left(starts, right)
            for token in range(first + step, last, step):
                places = range(token, max(token - step // 2, first), -1)
                near = next((place for place in places if text[starts[place] - 1].isspace()), token)
                cuts.append((starts[near], _WORD))
        if right < end:
            cuts.append((right, _SENTENCE))
        left = right
    return cuts


def _context(text: str, starts: Sequence[int], start: int, end: int, stride: int) -> tuple[str, str]:
    """Return the text before and after a chunk: at most `stride` tokens, from and to a word border."""
    place = starts[max(bisect_left(starts, start) - stride, 0)] if stride and start else start
    first = max(place, start - stride * _CONTEXT_CHARS)
    while 0 < first < start and not text[first - 1].isspace():
        first += 1
    token = bisect_left(starts, end) + stride
    last = min(starts[token] if token < len(starts) else len(text), end + stride * _CONTEXT_CHARS)
    while end < last < len(text) and not text[last - 1].isspace():
        last -= 1
    return text[first:start].strip(), text[end : max(last, end)].strip()


def _content_type(pieces: Sequence[SectionPiece]) -> str:
    weight = Counter[str]()  # by the kind that the characters belong to
    for piece in pieces:
        weight["paragraph" if piece.kind == "heading" else piece.kind] += piece.end - piece.start
    return max(weight, key=lambda kind: (weight[kind], kind))


MAX_BLOCK_CHARS = 12_000
"""A block of code up to here stays in one chunk, however many tokens it has: it is told to the letter or not at all."""

WINDOW_CHARS = 4_000
OVERLAP_LINES, OVERLAP_CHARS = 3, 400


def window_cuts(text: str, start: int, end: int) -> list[int]:
    """Return where a stretch beyond `MAX_BLOCK_CHARS` is cut: at line ends, inside of a line that is longer itself."""
    cuts: list[int] = []
    if end - start <= MAX_BLOCK_CHARS:
        return cuts
    place = start
    while end - place > WINDOW_CHARS:
        line_end = text.rfind("\n", place, place + WINDOW_CHARS)
        place = line_end + 1 if line_end > place else place + WINDOW_CHARS
        cuts.append(place)
    return cuts


def overlapping(text: str, start: int, least: int) -> int:
    """Return where a window that was cut at `start` begins: some lines earlier, never before `least`."""
    begins = start
    for _ in range(OVERLAP_LINES):
        line = text.rfind("\n", least, max(begins - 1, least)) + 1 or least
        if start - line > OVERLAP_CHARS:
            break
        begins = line
    return begins
