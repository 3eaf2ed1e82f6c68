"""Merging of short sections as it is measured: what is joined, what is asked, and where answers still link."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from evals.bench.passages.__main__ import PassageBench, PassageRanking, differences, tables
from evals.bench.passages.corpora import PassageCorpus, Rule, cut, file_pages, merge
from evals.bench.passages.questions import Questions, of_heading_links
from evals.evaluation.ablation import Remembering
from evals.evaluation.gold import GoldQuestion, GoldSet
from rag_serving.config.models import Embedding
from rag_serving.models import open_embedder, open_tokenizer

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = """# Crane guide

What every driver has to know.

## Wind

The crane stops when the wind is stronger than 20 metres a second.

## Loads

The boom lifts at most forty tonnes in calm weather.

### Chains

Chains are looked at before each shift, as [the rules on inspection](rules.html#inspection) say for all hoisting gear.

## Radio

Channel 14 is for the drivers and nobody else, see [wind](#wind) for what is called out on it in bad weather.
"""
RULES = """# Rules

## Inspection

Hoisting gear is inspected once a year by somebody who did not build it.
"""


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> PassageCorpus:
    folder = tmp_path_factory.mktemp("site")
    (folder / "guide.md").write_text(GUIDE)
    (folder / "rules.md").write_text(RULES)
    return cut("site", file_pages(folder, "md"))


def headings(corpus: PassageCorpus, rule: Rule) -> list[list[str]]:
    """The heading of each section, passage by passage."""
    members = merge(corpus.chunks, rule, words).members
    return [[row["heading_path"][-1] for row in rows] for rows in members.values()]


def test_nothing_is_joined_where_the_limit_is_zero(corpus: PassageCorpus) -> None:
    table = merge(corpus.chunks, Rule("apart"), words).table
    for name in ("chunk_id", "text", "heading_path", "token_count", "start", "end"):
        assert table[name].to_pylist() == corpus.chunks[name].to_pylist()


def test_neighbours_under_one_parent_are_joined_and_no_others(corpus: PassageCorpus) -> None:
    apart = [["Crane guide"], ["Wind"], ["Loads"], ["Chains"], ["Radio"], ["Inspection"]]
    assert headings(corpus, Rule("apart")) == apart
    joined = [["Crane guide"], ["Wind", "Loads"], ["Chains"], ["Radio"], ["Inspection"]]
    assert headings(corpus, Rule("siblings", 200)) == joined
    family = [["Crane guide", "Wind", "Loads"], ["Chains"], ["Radio"], ["Inspection"]]
    assert headings(corpus, Rule("family", 200, parent=True)) == family


def test_a_passage_has_no_more_tokens_than_the_limit(corpus: PassageCorpus) -> None:
    tokens = [
        row["token_count"] + 1 for row in corpus.chunks.to_pylist() if row["heading_path"][-1] in ("Wind", "Loads")
    ]
    assert ["Wind", "Loads"] in headings(corpus, Rule("fits", sum(tokens)))
    assert ["Wind", "Loads"] not in headings(corpus, Rule("too long", sum(tokens) - 1))


def test_who_may_read_less_is_never_joined_with_what_everyone_may(corpus: PassageCorpus) -> None:
    rows = corpus.chunks.to_pylist()
    rows[1]["readers"] = "group:crane"
    restricted = PassageCorpus("site", corpus.sections, corpus.chunks.from_pylist(rows, corpus.chunks.schema))
    assert headings(restricted, Rule("siblings", 200)) == headings(corpus, Rule("apart"))


@pytest.mark.parametrize(("where", "inline"), [("inline", True), ("above", False)])
def test_the_headings_of_joined_sections_stay_to_be_found(corpus: PassageCorpus, where: str, inline: bool) -> None:
    row = merge(corpus.chunks, Rule("siblings", 200, where), words).table.slice(1, 1).to_pylist()[0]
    assert ("## Loads" in row["text"]) is inline
    assert ("Loads" in row["prefix"]) is not inline
    assert "Loads" in row["lexical_prefix"]
    assert "Wind" in row["lexical_prefix"]


def test_a_link_asks_for_its_heading_without_naming_it(corpus: PassageCorpus) -> None:
    questions = of_heading_links(corpus)
    (name,) = questions.texts  # the link to a neighbour is not asked
    sections = {row["section_id"]: row["heading"] for row in corpus.sections.to_pylist()}
    assert [sections[section] for section in questions.right[name]] == ["Inspection"]
    assert sections[questions.taken_from[name]] == "Chains"
    assert "inspection" not in questions.texts[name].lower()
    assert "looked at before each shift" in questions.texts[name]


def test_the_place_and_the_tokens_of_the_first_right_passage() -> None:
    units = [frozenset({"a"}), frozenset({"a"}), frozenset({"b", "c"})]
    ranking = PassageRanking(units, [10, 20, 30], frozenset({"c"}))
    assert ranking.place == 3
    assert PassageRanking(units, [10, 20, 30], frozenset({"c"}), of_pages=True).place == 2
    assert PassageRanking(units, [10, 20, 30], frozenset({"d"})).place == math.inf
    assert ranking.is_within(60)
    assert not ranking.is_within(59)


def test_differences_are_of_the_questions_that_both_have() -> None:
    found = differences({"m": {"a": 1.0, "b": 0.0, "c": 1.0}}, {"m": {"a": 0.0, "b": 0.0}})
    assert found["m"]["mean"] == -0.5
    assert found["m"]["questions"] == 2


def test_an_answer_from_joined_sections_cites_the_section_of_its_quote(corpus: PassageCorpus, tmp_path: Path) -> None:
    asked = GoldQuestion(
        "load", "How many tonnes does the boom lift?", True, frozenset({"guide"}), ("lifts at most forty tonnes",)
    )
    section = next(row["section_id"] for row in corpus.sections.to_pylist() if row["heading"] == "Loads")
    right = {"load": frozenset({section})}
    questions = Questions("site", corpus, {"load": asked.question}, right, gold=GoldSet((asked,)))
    tokenizer = open_tokenizer(Embedding())
    bench = PassageBench(tmp_path, Remembering(open_embedder(Embedding())), tokenizer, lambda *_: None)
    rule = Rule("siblings", 200)
    apart, joined = (bench.measure(questions, each) for each in (Rule("apart"), rule))
    assert (apart.passages, apart.merged, joined.passages, joined.merged) == (6, 0, 5, 1)
    for measured in (apart, joined):
        assert measured.values["MRR@10"] == {"load": 1.0}
        assert measured.values["sentence_precision"] == {"load": 1.0}
    merged = merge(corpus.chunks, rule, lambda text: len(tokenizer.offsets([text])[0]))
    with bench.answering(merged) as pipeline:
        answer = pipeline.ask(asked.asker(pipeline.tenant), asked.question)
    assert [citation.heading_path for citation in answer.citations] == [("Crane guide", "Loads")]


def test_the_page_shows_what_the_json_beside_it_says() -> None:
    results = json.loads((DOCS / "passages.json").read_text(encoding="utf-8"))
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    assert set(results["merging"]) == {"sample", "cwiki", "kafka-docs", "rust-book", "squad2"}
    for table in tables(results).values():
        assert table in page
