"""Whether what a reader was shown is true to the pages, by plain means of its own: nothing of the verification is used.

Belongs here: the faults of one answer, a line each. Does not belong here: what a model wrote, asking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import Stemmer

from rag_serving.answering.extraction.excerpt_length import CONTINUES
from rag_serving.answering.gates import CLOSEST
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.passages import Chunk

PARAGRAPH = re.compile(r"(.*?)[ \n]((?:\[\d+\])+)(?:\n\n|\Z)", re.DOTALL)
_NUMBER = re.compile(r"\s*\[\d{1,3}\]")
_WORD = re.compile(r"\w+(?:[.:/_@-]\w+)*%?")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|without|cannot|neither|nor|unless|except)\b|n['’]t\b", re.IGNORECASE
)
_LITTLE_WORDS = "a an the is are am be been has have do does did will it they this that these those there to"
_LITTLE = frozenset(_LITTLE_WORDS.split())
_stem = Stemmer.Stemmer("english").stemWord


@dataclass(frozen=True)
class Shown:
    """A paragraph of an answer, and what it cites."""

    text: str
    chunks: tuple[Chunk, ...]
    carried: Mapping[str, str]  # words of it, and the words of the passage that the receipt names for them

    @property
    def source(self) -> str:
        """All that the cited passages say, with what they stand under."""
        above = [part for c in self.chunks for part in (c.headings, c.parts.table_header, c.parts.introduction)]
        return "\n".join([*above, *(chunk.text for chunk in self.chunks)])

    @property
    def is_verbatim(self) -> bool:
        """Whether it is nothing but words of the passages, as they stand: a sentence, or a quotation of one."""
        bare = self.text.removesuffix(f"\n{CONTINUES}")
        parts = bare[1:].removesuffix("”").split(" … ") if bare.startswith("“") else [bare]
        return all(_plain(part) in _plain(self.source) for part in parts)


def shown_of(answer: Answer, receipt: Mapping[str, Any], chunks: Mapping[str, Chunk]) -> list[Shown]:
    """Return the paragraphs of an answer; `chunks` are by id."""
    by_number: dict[int, list[Citation]] = {}
    for citation in answer.citations:
        by_number.setdefault(citation.index, []).append(citation)
    words = {v["shown"]: {word: by for word, by, _ in v["carried"]} for v in receipt["verdicts"]}
    found = []
    for text, marks in PARAGRAPH.findall(answer.answer.removeprefix(f"{CLOSEST}\n\n")):
        cited = [by_number[int(number)][0].chunk_id for number in re.findall(r"\d+", marks)]
        found.append(Shown(text, tuple(chunks[chunk_id] for chunk_id in cited), words.get(text, {})))
    return found


def quote_faults(answer: Answer, pages: Mapping[tuple[str, int], str]) -> Iterator[str]:
    """Yield the quotes that do not stand on their page, in the version that they name."""
    for citation in answer.citations:
        page = pages.get((citation.chunk_id.rsplit(":", 2)[0], citation.page_version))
        if page is None or not citation.quote or _plain(citation.quote) not in _plain(page):
            yield f"quote not on its page: {citation.quote!r}"


def sentence_faults(shown: Shown) -> Iterator[str]:
    """Yield what a paragraph says that the passages it cites do not."""
    if shown.is_verbatim:
        return
    if shown.text.startswith("“"):
        yield f"altered quotation: {shown.text!r}"
    source, known = shown.source.lower(), {_key(word) for word in _WORD.findall(shown.source)}
    borne = {word for word, by in shown.carried.items() if by.lower() in source}
    borne = {_key(part) for word in borne for part in _WORD.findall(word)}
    for word in _WORD.findall(shown.text):
        if _key(word) not in known | borne and word.lower() not in _LITTLE:
            yield f"word {word!r} is not in the passage: {shown.text!r}"
    nearest = _nearest(shown.text, shown.source)
    if len(_NEGATION.findall(shown.text)) != len(_NEGATION.findall(nearest)):
        yield f"another negation: {shown.text!r} beside {nearest!r}"


def _nearest(text: str, source: str) -> str:
    """Return the sentence that has most words of a text, the shortest of several."""
    said = {_key(word) for word in _WORD.findall(text)}
    sentences: Sequence[str] = [part for part in _SENTENCE.split(source) if part.strip()]
    return max(sentences, key=lambda part: (len(said & {_key(word) for word in _WORD.findall(part)}), -len(part)))


def _key(word: str) -> str:
    """Return a word to compare by: its stem, or itself where it is a figure or a name."""
    return _stem(word.lower()) if word.isalpha() and word[1:].islower() else word.lower()


def _plain(text: str) -> str:
    """Return a text without line breaks, and without numbers in brackets: readers see those of the answer alone."""
    return " ".join(_NUMBER.sub("", text).split())
