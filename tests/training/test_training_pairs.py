"""Training questions: their targets say their facts, what is unanswerable stands nowhere, and nothing is drawn anew."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from evals.bench.passages.corpora import file_pages
from evals.bench.passages.merged import Rule, merge
from evals.bench.real_text import DATA
from evals.training.masking import mask_heading, mask_headings
from evals.training.pairs import Pair, read_pairs, write_pairs
from evals.training.wiki import Wiki, content_terms, plain
from evals.training.wiki_pairs import CORPORA, PER_PAGE, VERSIONS, main, open_wiki, pages_of, wiki_pairs
from rag_assets.evaluation.usefulness import holds
from rag_serving.access.principals import EVERYONE
from tests.support.passages import chunk_of

HANDBOOK = """# Crane handbook

Everything about the cranes of the harbour, for those who drive them.

## Starting the crane

Check the brake and the lamp first, then turn the key and wait for ten seconds.

To release the brake, run the following command:

```
$ crane brake --release
```

## What happens when the wind is too strong?

The crane stops by itself and lowers its load to the ground.

## Rehandle

A rehandle is a move that only makes room for another move of a container.

## Load limits

| Crane | Limit | Default speed |
|---|---|---|
| Hercules | 40 tonnes | 2 m/s |
| Atlas | 65 tonnes | 1 m/s |

## Required papers

- A crane licence
- A medical certificate
- Proof of training
"""
YARD = """# Yard manual

How containers are stacked in the yard of the harbour, row by row.

## Stacking containers

Heavy containers stand below light ones, and none stands on a reefer.

## Stacks

| Stack | Colour |
|---|---|
| Northrow | red |
| Southrow | green |
"""


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Wiki:
    folder = tmp_path_factory.mktemp("harbour")
    (folder / "crane.md").write_text(HANDBOOK, encoding="utf-8")
    (folder / "yard.md").write_text(YARD, encoding="utf-8")
    return open_wiki("harbour", file_pages(folder, "md"))


@cache
def wiki_of(corpus: str) -> Wiki:
    pages = pages_of(corpus, DATA)
    if pages is None:
        pytest.skip(f"{DATA} has no pages of {corpus}")
    return open_wiki(corpus, pages)


@cache
def pairs_of(corpus: str) -> tuple[Pair, ...]:
    return tuple(wiki_pairs(wiki_of(corpus)))


def first_wordings(pairs: tuple[Pair, ...]) -> dict[str, Pair]:
    return {pair.question: pair for pair in pairs if pair.answerable and not pair.masked and not pair.reworded}


def test_structure_asks_for_its_section(harbour: Wiki) -> None:
    asked = first_wordings(tuple(wiki_pairs(harbour)))
    headings = {question: pair.heading for question, pair in asked.items()}
    assert headings["how do I start the crane"] == "Starting the crane"
    assert headings["what happens when the wind is too strong?"] == "What happens when the wind is too strong?"
    assert asked["what is a rehandle"].answer.startswith("A rehandle is a move")
    assert asked["command to release the brake"].facts == ("crane brake --release",)
    assert asked["what are the required papers"].facts == (
        "A crane licence",
        "A medical certificate",
        "Proof of training",
    )
    cells = {pair.facts for pair in asked.values() if pair.source == "table"}
    assert {("40 tonnes",), ("65 tonnes",), ("2 m/s",), ("red",)} <= cells


def test_a_page_has_at_most_so_many_questions_of_a_source(harbour: Wiki) -> None:
    pairs = wiki_pairs(harbour, per_page=1)
    firsts = Counter(
        (pair.page_id, pair.source) for pair in pairs if pair.answerable and not pair.masked and not pair.reworded
    )
    assert set(firsts.values()) == {1}


def test_one_giant_page_gives_no_more_questions_than_another(tmp_path: Path) -> None:
    rows = "".join(f"| setting.number.{number} | {number} ms |\n" for number in range(2_000))
    sections = "".join(f"## Starting crane {number}\n\n{'to you can a ' * 30}\n\n" for number in range(500))
    hostile = f"## {'Starting ' * 9_000}\n\nYou can {'you can a ' * 9_000}:\n\n```\n$ crane\n```\n"
    page = f"# Giant\n\n| Name | Default |\n|---|---|\n{rows}\n{sections}{hostile}"
    (tmp_path / "giant.md").write_text(page, encoding="utf-8")
    pairs = tuple(wiki_pairs(open_wiki("giant", file_pages(tmp_path, "md"))))
    firsts = Counter(pair.source for pair in first_wordings(pairs).values())
    assert firsts["table"] == firsts["heading"] == PER_PAGE
    assert all(len(pair.question) < 300 for pair in pairs)


def test_pairs_are_asked_as_gold_questions(harbour: Wiki) -> None:
    pairs = tuple(wiki_pairs(harbour))
    limit = next(pair for pair in pairs if pair.facts == ("65 tonnes",)).as_gold()
    assert limit.facts == (("65 tonnes",),)
    assert [(place.page, place.heading) for place in limit.places] == [("crane", "Load limits")]
    lacking = next(pair for pair in pairs if pair.source == "near_miss").as_gold()
    assert (lacking.answerable, lacking.pages, lacking.places, lacking.facts) == (False, frozenset(), (), ())
    assert {pair.as_gold().part for pair in pairs} == {"crane", "yard"}


def test_what_not_everyone_may_read_asks_nothing() -> None:
    pages = pages_of("sample", DATA)
    assert pages is not None
    restricted = {row["page_id"] for row in pages.to_pylist() if row["readers"] != EVERYONE}
    assert restricted
    assert restricted.isdisjoint({pair.page_id for pair in pairs_of("sample")})


def test_without_its_heading_a_passage_keeps_its_text() -> None:
    passage = chunk_of("Turn the key.", title="Crane handbook", heading_path=("Crane handbook", "Starting the crane"))
    masked = mask_heading(passage)
    assert (masked.title, masked.heading_path, masked.text) == ("Crane handbook", ("Crane handbook",), passage.text)
    top = mask_heading(chunk_of("Turn the key.", title="Crane handbook", heading_path=("Crane handbook",)))
    assert (top.title, top.heading_path) == ("", ())


def test_neither_index_sees_a_masked_heading(harbour: Wiki) -> None:
    table = merge(harbour.corpus.chunks, Rule("apart"), len).table
    section = next(section for section in harbour.sections if section.heading == "Load limits")
    rows = mask_headings(table, {section.id}).to_pylist()
    for row, before in zip(rows, table.to_pylist(), strict=True):
        if row["section_id"] == section.id:
            assert "Load limits" not in row["prefix"] + row["lexical_prefix"]
            assert row["text"] == before["text"]
        else:
            assert row == before


def test_files_are_read_as_they_were_written(harbour: Wiki, tmp_path: Path) -> None:
    pairs = list(wiki_pairs(harbour))
    counts = write_pairs([*pairs, *pairs], tmp_path / "pairs.jsonl")
    firsts = {pair.id: pair for pair in reversed(pairs)}
    assert {pair.id: pair for pair in read_pairs(tmp_path / "pairs.jsonl")} == firsts
    assert counts.total() == len({pair.id for pair in pairs})


def test_the_command_writes_a_file_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--corpora", "sample", "--out", str(tmp_path)]) == 0
    assert len(list(read_pairs(tmp_path / "sample.jsonl"))) == int(capsys.readouterr().out.split("|")[-2])


def test_real_data_that_are_not_there_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--corpora", "cwiki", "--data", str(tmp_path), "--out", str(tmp_path)]) == 0
    assert "has no pages of cwiki" in capsys.readouterr().err


def test_the_same_pages_and_seed_give_the_same_questions() -> None:
    assert tuple(wiki_pairs(wiki_of("sample"))) == pairs_of("sample")
    assert {pair.id for pair in wiki_pairs(wiki_of("sample"), seed=1)} != {pair.id for pair in pairs_of("sample")}


@pytest.mark.parametrize("corpus", [name for name in CORPORA if name != "kafka-docs"])
def test_questions_of_real_pages_have_what_they_promise(corpus: str) -> None:
    wiki, pairs = wiki_of(corpus), pairs_of(corpus)
    texts = {section.id: plain(section.text) for section in wiki.sections}
    assert {pair.answerable for pair in pairs} == {True, False}
    for pair in pairs:
        assert pair.group == wiki.groups[pair.page_id]
        assert all(wiki.groups[page] == pair.group for page, _, _ in (*pair.also, *pair.superseded)), pair.question
        if pair.answerable:
            assert all(holds(texts[pair.section_id], plain(fact)) for fact in pair.facts), pair.question
        elif not pair.reworded:
            assert_nothing_answers(wiki, pair)


def assert_nothing_answers(wiki: Wiki, pair: Pair) -> None:
    holding = wiki.holding(content_terms(pair.question))
    assert all(wiki.page_of[section] in pair.without for section in holding), pair.question
    assert pair.source == "near_miss" or pair.page_id in pair.without
    assert (pair.facts, pair.answer, pair.also) == ((), "", ())


def test_the_newest_version_answers_and_names_the_older_ones() -> None:
    pairs = [pair for pair in pairs_of(VERSIONS) if pair.answerable]
    for pair in pairs:
        assert pair.page_id.startswith("39.")
        assert pair.superseded
        assert all(page.startswith(("20.", "24.", "38.")) for page, _, _ in pair.superseded)
