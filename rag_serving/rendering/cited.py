"""The rectangles of an answer's quotes, and what its documents call their pages. An answer hardly waits for it: what is
late is left out, and made when a reader opens the quote."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock as Mutex

from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import StoreError
from rag_serving.indexes.originals import Original
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.passages import Box, Chunk, Lock, PagePart
from rag_serving.rendering.layer import PageLayer, QuoteContext
from rag_serving.rendering.pictures import MissingRendererError, Pictures, RenderError, RenderersBusyError
from rag_serving.text.structure import within

WAIT_S = 0.15
"""That an answer waits for pages which nobody has looked at yet."""
MOST_PAGES = 8
"""That are looked at for one answer."""
_MOST_UNDER_WAY = 4  # pages that are looked at beside answers; others are left out
_AROUND = 80  # characters before and after a quote
_PDF = "application/pdf"

Layers = Mapping[tuple[str, int], PageLayer]
"""Text layers by page id and number of the page."""


@dataclass(frozen=True)
class _Piece:
    """The part of a quote on one page."""

    page: int
    wanted: QuoteContext


class CitedPlaces:
    """Looks quotes up on their pages. Safe to use from several threads."""

    def __init__(self, pictures: Pictures, wait_s: float = WAIT_S) -> None:
        self._pictures, self._wait_s = pictures, wait_s
        self._threads = ThreadPoolExecutor(2, "cited")
        self._under_way = 0
        self._mutex = Mutex()

    def close(self) -> None:
        """End the threads; pages that are still waiting are not looked at."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def located(
        self, answer: Answer, lock: Lock, original: Callable[[str], Original | None], principal: Principal
    ) -> Answer:
        """Return the answer with rectangles and page labels, where its documents are PDF files that may be shown.
        `original` gives the file of a page id that the principal may read all of."""
        pieces = {place: [*_pieces(citation, lock)] for place, citation in enumerate(answer.citations)}
        files: dict[str, Original] = {}
        wanted: list[tuple[str, int]] = []
        for place, citation in enumerate(answer.citations):
            file = original(citation.page_id) if pieces[place] else None
            if file and file.media_type == _PDF:
                files[citation.page_id] = file
                wanted += [(citation.page_id, piece.page) for piece in pieces[place]]
        if not wanted:
            return answer
        layers = self._layers([*dict.fromkeys(wanted)][:MOST_PAGES], files, principal)
        cited = [_with_boxes(one, pieces[place], layers) for place, one in enumerate(answer.citations)]
        return replace(answer, citations=tuple(cited))

    def _layers(self, pages: list[tuple[str, int]], files: Mapping[str, Original], principal: Principal) -> Layers:
        until = time.monotonic() + self._wait_s
        asked = {page: self._asked(files[page[0]], page[1], principal) for page in pages}
        layers = {}
        for page, future in asked.items():
            if future is None:
                continue
            with suppress(LateError, RenderError, RenderersBusyError, MissingRendererError, StoreError):
                layers[page] = future.result(max(until - time.monotonic(), 0.0))
        return layers

    def _asked(self, original: Original, page: int, principal: Principal) -> Future[PageLayer] | None:
        """Return the layer of a page, known or under way; None if too many are under way."""
        if known := self._pictures.known_layer(principal.tenant, original, page):
            done = Future[PageLayer]()
            done.set_result(known)
            return done
        with self._mutex:
            if self._under_way >= _MOST_UNDER_WAY:
                return None
            self._under_way += 1
        caller = principal.user or ""
        try:
            future = self._threads.submit(self._pictures.layer, principal.tenant, caller, original, page)
        except RuntimeError:  # closed
            self._is_done(None)
            return None
        future.add_done_callback(self._is_done)
        return future

    def _is_done(self, _: object) -> None:
        with self._mutex:
            self._under_way -= 1


def _pieces(citation: Citation, lock: Lock) -> Iterator[_Piece]:
    """Yield the parts of a quote by page, in order; none if the pages are not known."""
    passage = lock.passage(citation.passage)
    if passage is None or citation.page is None:
        return
    chunk: Chunk = passage.chunk
    marks = within(chunk.parts.marks, citation.start, citation.end)
    borders = [mark.start + citation.start for mark in marks[1:]]
    starts, ends = [citation.start, *borders], [*borders, citation.end]
    pages = [mark.page for mark in marks] or [citation.page]
    parts: dict[int, tuple[int, int]] = {}
    for page, start, end in zip(pages, starts, ends, strict=True):
        parts[page or citation.page] = parts.get(page or citation.page, (start, end))[0], end
    for page, (start, end) in parts.items():
        text = chunk.text
        around = text[max(start - _AROUND, 0) : start], text[end : end + _AROUND]
        yield _Piece(page, QuoteContext(text[start:end], *around))


def _with_boxes(citation: Citation, pieces: list[_Piece], layers: Layers) -> Citation:
    parts = {piece.page: _part(piece, layers.get((citation.page_id, piece.page))) for piece in pieces}
    if not parts or citation.page is None:
        return citation
    first = parts.get(citation.page, PagePart(citation.page))
    continued = tuple(parts.get(part.page, part) for part in citation.continued)
    return replace(citation, page_label=first.page_label, boxes=first.boxes, continued=continued)


def _part(piece: _Piece, layer: PageLayer | None) -> PagePart:
    if layer is None:
        return PagePart(piece.page)
    boxes: tuple[Box, ...] = tuple((*(round(value, 2) for value in box),) for box in layer.boxes(piece.wanted))  # type: ignore[misc]
    return PagePart(piece.page, layer.label or None, boxes)
