"""An answer as Markdown: its text, then each source once with all of its quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rag_serving.answering.citations import claims_of, gap_before_markers, page_read, place_told, plain
from rag_serving.escaping.targets import for_link, for_markdown, markdown_text
from rag_serving.records.answers import Answer, Citation
from rag_serving.records.decisions import ClarificationOption

_MARKERS = re.compile(r"(?<!\])(?:\[\d{1,3}\])+\Z")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Marker:
    """A numbered link of a text and the citation that it leads to."""

    start: int  # offsets in the text
    end: int
    citation: Citation


@dataclass(frozen=True)
class LinkedMarkdown:
    """An answer whose markers are links: `[[1]](https://…)`."""

    text: str
    markers: tuple[Marker, ...]


def markdown(answer: Answer) -> str:
    """Return the answer and its sources as Markdown, with markers that are no links."""
    return "\n".join([markdown_text(answer.answer), *_below(answer)])


def linked_markdown(answer: Answer) -> LinkedMarkdown:
    """Return the answer and its sources as Markdown whose markers link to the quoted words. Only the markers behind
    claims become links: `[1]` elsewhere is the page's own text."""
    first_of: dict[int, Citation] = {}
    for citation in answer.citations:
        first_of.setdefault(citation.index, citation)
    text, markers = "", list[Marker]()
    for place, claim in enumerate(claims_of(answer) or [answer.answer]):
        found = _MARKERS.search(claim)
        said = markdown_text(claim[: found.start()].rstrip() if found else claim)
        text += f"{chr(10) * 2 if place else ''}{said}{gap_before_markers(said) if found else ''}"
        for number in map(int, _NUMBER.findall(found[0]) if found else ()):
            start, cited = len(text), first_of.get(number)
            text += _link(number, cited)
            if cited:
                markers.append(Marker(start, len(text), cited))
    return LinkedMarkdown("\n".join([text, *_below(answer)]), tuple(markers))


def _link(number: int, citation: Citation | None) -> str:
    """Return a marker as a link; if there is no address, as it is."""
    if citation is None or not citation.fragment_url:
        return f"[{number}]"
    return f"[[{number}]]({for_link(citation.fragment_url)})"


def _below(answer: Answer) -> list[str]:
    """Return the lines below an answer: its clarifying question, then its numbered sources."""
    lines = []
    if told := answer.clarification:
        lines += ["", *([markdown_text(told.text)] if told.text != answer.answer else []), *map(_option, told.options)]
    if answer.citations:
        lines.append("")
    by_number = sorted(answer.citations, key=lambda citation: citation.index)
    for _, cited in groupby(by_number, key=lambda citation: citation.index):
        lines += _source(list(cited))
    if answer.understood:
        lines += ["", f"Read as: {for_markdown(answer.understood)}"]
    return lines


def _elsewhere(citation: Citation, first: Citation) -> str:
    """Return the page of a quote if it is another than that of its source's first, or OCR read it otherwise."""
    told = page_read(citation)
    return f" ({for_markdown(told)})" if told != page_read(first) else ""


def _option(option: ClarificationOption) -> str:
    """Return the line of a next step: a page to open, or words to ask."""
    label = for_markdown(option.label)
    return f"- [{label}]({for_link(option.url)})" if option.url else f"- {label}"


def _source(citations: Sequence[Citation]) -> Iterator[str]:
    """Yield the lines of one source; its link opens at the first of its quotes."""
    first = citations[0]
    where = place_told(first) or f"version {first.page_version}"
    link = f"[{for_markdown(first.title)}]({for_link(first.fragment_url)})"
    quotes = ", ".join(f"“{for_markdown(plain(one.quote))}”{_elsewhere(one, first)}" for one in citations)
    also_at = (
        f"    - also at [{for_markdown(place.title)}]({for_link(place.url)}) ({for_markdown(place.space)})"
        for place in first.also_at
    )
    yield f"- [{first.index}] {link} ({for_markdown(where)}): {quotes}"
    yield from also_at
