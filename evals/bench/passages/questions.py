"""Questions with a known right section or page.

Belongs here: gold quotes, links to headings, links to pages and SQuAD as such questions.
Does not belong here: running them (`__main__`).

The words around a link are a question for the section that it leads to; its own words and that section's heading are
masked, or the task would be trivial. The passage with the link is left out of its ranking, and so are links between
sections that merging could make one passage: those of one parent, and a parent's to its own.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from evals.bench.links import JUDGEMENTS, masked
from evals.bench.passages.corpora import ROOT, PassageCorpus
from evals.evaluation.bench import paragraph
from evals.evaluation.gold import GoldSet, read_gold
from evals.evaluation.gold_collections import read_gold_collection
from rag_serving.access.principals import EVERYONE
from rag_serving.artifacts.schema import CHUNKS, SECTIONS
from rag_serving.models.protocols import Tokenizer

Row = Mapping[str, Any]
Link = tuple[Row, str, Row]  # its section, its words, its target section

_AROUND = 240  # characters on either side of a link
_FEWEST_WORDS = 12  # of a question
_SLUG = re.compile(r"[^\w\- ]")


@dataclass(frozen=True)
class Questions:
    """Texts and right answers by question id: ids of sections, or of pages."""

    name: str
    corpus: PassageCorpus
    texts: Mapping[str, str]
    right: Mapping[str, frozenset[str]]
    of_pages: bool = False
    taken_from: Mapping[str, str] = field(default_factory=dict)  # the section of a question
    gold: GoldSet | None = None  # to be answered as well


def of_gold(corpus: PassageCorpus) -> Questions:
    """Return the sample's gold questions; right are the sections of a named page with the quote."""
    gold = read_gold(ROOT / "evals" / "gold" / "sample.yaml")
    right: dict[str, set[str]] = defaultdict(set)
    for chunk in corpus.chunks.select(["page_id", "section_id", "text"]).to_pylist():
        text = " ".join(chunk["text"].split())
        for asked in gold.questions:
            if chunk["page_id"] in asked.pages and any(" ".join(quote.split()) in text for quote in asked.quotes):
                right[asked.id].add(chunk["section_id"])
    texts = {asked.id: asked.question for asked in gold.questions if asked.id in right}
    return Questions("sample", corpus, texts, {name: frozenset(right[name]) for name in texts}, gold=gold)


def of_page_links(corpus: PassageCorpus, wiki: Path) -> Questions:
    """Return the known links of a wiki, as used by `evals.bench.links`."""
    pages = set(corpus.chunks["page_id"].to_pylist())
    links = [json.loads(line) for line in (wiki / JUDGEMENTS).read_text(encoding="utf-8").splitlines()]
    asked = {f"l{number}": link for number, link in enumerate(links) if link["target_id"] in pages}
    right = {name: frozenset({link["target_id"]}) for name, link in asked.items()}
    return Questions(corpus.name, corpus, {name: masked(link) for name, link in asked.items()}, right, of_pages=True)


def of_heading_links(corpus: PassageCorpus) -> Questions:
    """Return the links in paragraphs to headings elsewhere, each pair of sections once."""
    indexed = set(corpus.chunks["section_id"].to_pylist())
    texts, right, taken_from = {}, {}, {}
    for source, words, target in heading_links(corpus):
        pair = f"{source['section_id']}>{target['section_id']}"
        text = _around(source, words, target["heading"])
        if pair in texts or target["section_id"] not in indexed or len(text.split()) < _FEWEST_WORDS:
            continue
        texts[pair], right[pair] = text, frozenset({target["section_id"]})
        taken_from[pair] = source["section_id"]
    return Questions(corpus.name, corpus, texts, right, taken_from=taken_from)


def heading_links(corpus: PassageCorpus) -> Iterator[Link]:
    """Yield each link that leads to a heading of the corpus, with the two sections."""
    rows = corpus.sections.to_pylist()
    by_place: dict[tuple[str, str], Row] = {}
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        for name in dict.fromkeys((row["anchor"], *(a["name"] for a in row["anchors"]), slug(row["heading"]))):
            by_place.setdefault((row["page_id"].rpartition(".")[2], name), row)
            by_name[name].append(row)
    for row in rows:
        for link in row["links"]:
            file, _, name = link["target"].partition("#") if link["kind"] == "url" else ("", "", link["anchor"])
            page = PurePosixPath(file).stem or row["page_id"].rpartition(".")[2]
            elsewhere = by_name[name][0] if len(by_name.get(name, ())) == 1 else None
            target = by_place.get((page, name), elsewhere)
            if name and target is not None and link["text"].strip() and _are_apart(row, target):
                yield row, link["text"], target


def _are_apart(one: Row, other: Row) -> bool:
    """Return whether merging could never make one passage of two sections."""
    path, target = one["heading_path"], other["heading_path"]
    return one["page_id"] != other["page_id"] or target[:-1] not in (path, path[:-1])


def slug(heading: str) -> str:
    """Return the name that Markdown sites give a heading."""
    return _SLUG.sub("", heading.lower()).replace(" ", "-")


def _around(section: Row, words: str, heading: str) -> str:
    """Return the words around a link in its paragraph, masked; empty if it is in none."""
    text = section["text"]
    for block in section["blocks"]:
        place = text.find(words, block["start"], block["end"]) if block["kind"] == "paragraph" else -1
        if place >= 0:
            start, end = max(block["start"], place - _AROUND), min(block["end"], place + len(words) + _AROUND)
            return _masked(text[start:end], words, heading)
    return ""


def _masked(text: str, *names: str) -> str:
    for name in names:
        if name := name.strip("“”\"' "):
            text = re.sub(re.escape(name), " ", text, flags=re.IGNORECASE)
    return " ".join(text.split())


def of_squad(path: Path, tokenizer: Tokenizer) -> Questions:
    """Return SQuAD with each article as one page, and its paragraphs as sections without headings."""
    collection = read_gold_collection(path)
    position: Counter[str] = Counter()
    rows, section_of = [], {}
    counts = [len(offsets) for offsets in tokenizer.offsets([document.text for document in collection.documents])]
    for document, tokens in zip(collection.documents, counts, strict=True):
        article = _article(document.page)
        rows.append(_paragraph(article, position[article], document.title, document.text, tokens))
        section_of[document.page] = rows[-1]["section_id"]
        position[article] += 1
    asked = [question for question in collection.gold.questions if question.answerable]
    right = {question.id: frozenset(section_of[page] for page in question.pages) for question in asked}
    gold = [replace(q, pages=frozenset(map(_article, q.pages))) for q in collection.gold.questions]
    corpus = PassageCorpus("squad2", SECTIONS.empty(), CHUNKS.table(rows))
    return Questions("squad2", corpus, {q.id: q.question for q in asked}, right, gold=GoldSet(tuple(gold)))


def _article(page: str) -> str:
    return page.rpartition("-")[0]


def _paragraph(article: str, number: int, title: str, text: str, tokens: int) -> dict[str, Any]:
    return {
        **paragraph(article, number, title, text, tokens, section=number),
        "anchor": f"p{number}",
        "url": f"https://squad.example/{article}#p{number}",
        "content_hash": "",
        "page_readers": EVERYONE,
        "included_from": None,
    }
