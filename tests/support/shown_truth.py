"""Whether what a reader was shown is true to the pages, by plain means of its own: nothing of the verification is used.

Belongs here: the faults of one answer, a line each. Does not belong here: what a model wrote, asking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rag_serving.answering.citations import CONTINUES
from rag_serving.answering.gates import CLOSEST
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.passages import Chunk

PARAGRAPH = re.compile(r"(.*?)[ \n]((?:\[\d+\])+)(?:\n\n|\Z)", re.DOTALL)
_NUMBER = re.compile(r"\s*\[\d{1,3}\]")
_PARTS = re.compile(r"\n|; |: ")  # of a row that is told with its columns, of an item with its introduction


@dataclass(frozen=True)
class Shown:
    """A paragraph of an answer, and what it cites."""

    text: str
    chunks: tuple[Chunk, ...]

    @property
    def source(self) -> str:
        """All that the cited passages say, with what they stand under."""
        above = [part for c in self.chunks for part in (c.headings, c.parts.table_header, c.parts.introduction)]
        return "\n".join([*above, *(chunk.text for chunk in self.chunks)])

    @property
    def is_verbatim(self) -> bool:
        """Whether it is nothing but words of the passages, as they stand."""
        parts = _PARTS.split(self.text.removesuffix(f"\n{CONTINUES}"))
        return all(_plain(part).rstrip(":") in _plain(self.source) for part in parts)


def shown_of(answer: Answer, chunks: Mapping[str, Chunk]) -> list[Shown]:
    """Return the paragraphs of an answer; `chunks` are by id."""
    by_number: dict[int, list[Citation]] = {}
    for citation in answer.citations:
        by_number.setdefault(citation.index, []).append(citation)
    found = []
    for text, marks in PARAGRAPH.findall(answer.answer.removeprefix(f"{CLOSEST}\n\n")):
        cited = [by_number[int(number)][0].chunk_id for number in re.findall(r"\d+", marks)]
        found.append(Shown(text, tuple(chunks[chunk_id] for chunk_id in cited)))
    return found


def quote_faults(answer: Answer, pages: Mapping[tuple[str, int], str]) -> Iterator[str]:
    """Yield the quotes that do not stand on their page, in the version that they name."""
    for citation in answer.citations:
        page = pages.get((citation.chunk_id.rsplit(":", 2)[0], citation.page_version))
        if page is None or not citation.quote or _plain(citation.quote) not in _plain(page):
            yield f"quote not on its page: {citation.quote!r}"


def sentence_faults(shown: Shown) -> Iterator[str]:
    """Yield what a paragraph says that the passages it cites do not say in these words."""
    if not shown.is_verbatim:
        yield f"not the page's words: {shown.text!r}"


def _plain(text: str) -> str:
    """Return a text without line breaks, and without numbers in brackets: readers see those of the answer alone."""
    return " ".join(_NUMBER.sub("", text).split())
