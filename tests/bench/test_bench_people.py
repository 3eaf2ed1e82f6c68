"""Questions in people's own words: their facts stand in the pages, their halves are apart, and they can be asked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from evals.bench.corpora import DATA, ROOT, cut, file_pages
from evals.bench.people import CORPORA, HALVES, NOT_A_QUESTION, ask, holds, published, questions_of, read_pages
from evals.evaluation.gold import GoldQuestion, GoldSet, plain, read_gold, tenant_gold
from rag_assets.steps.sections.splitting import build_sections


def questions(corpus: str) -> dict[str, tuple[GoldQuestion, ...]]:
    return {half: read_gold(questions_of(corpus, half)).questions for half in HALVES}


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_fact_stands_in_a_section_that_is_named(corpus: str) -> None:
    pages = read_pages(corpus, DATA)
    if pages is None:
        pytest.skip(f"{DATA} has no pages of {corpus}")
    texts: dict[tuple[str, str], str] = {}
    for row in build_sections(pages).sections.select(["page_id", "anchor", "heading_path", "text"]).to_pylist():
        for name in {row["anchor"], plain(row["heading_path"][-1])}:
            texts[row["page_id"], name] = f"{texts.get((row['page_id'], name), '')}\n{row['text']}"
    known = {page for page, _ in texts}
    more = read_gold(questions_of(corpus, "languages")).questions if corpus == "sample" else ()
    for gold in (*(each for half in questions(corpus).values() for each in half), *more):
        named = [texts[place.page, place.anchor or plain(place.heading)] for place in gold.places]
        missing = [fact for fact in gold.facts if not any(holds(text, one) for text in named for one in fact)]
        assert not missing, gold.id
        assert gold.answerable or gold.kind == NOT_A_QUESTION or gold.part in known, gold.id


@pytest.mark.parametrize("corpus", CORPORA)
def test_no_page_is_in_both_halves_and_the_kinds_are_even(corpus: str) -> None:
    halves = questions(corpus)
    parts = [{each.part for each in half} | {page for each in half for page in each.pages} for half in halves.values()]
    assert parts[0].isdisjoint(parts[1])
    ids = Counter(each.id for half in halves.values() for each in half)
    assert set(ids.values()) == {1}
    for kind in {each.kind for half in halves.values() for each in half}:
        build, measured = (sum(each.kind == kind for each in half) for half in halves.values())
        assert abs(build - measured) <= 1, kind


def test_a_third_has_no_answer_and_every_answer_has_facts() -> None:
    everything = [each for corpus in CORPORA for half in questions(corpus).values() for each in half]
    asked = [each for each in everything if each.kind != NOT_A_QUESTION]
    assert 0.3 < sum(not each.answerable for each in asked) / len(asked) < 0.37
    assert all(bool(each.facts) == each.answerable for each in everything)


def test_the_gates_do_not_ask_them() -> None:
    gold = tenant_gold(ROOT / "evals" / "gold", "demo")
    assert gold
    assert not {each.id for each in gold.questions} & {each.id for each in questions("sample")["build"]}


def test_pages_are_indexed_and_asked(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "guide.md").write_text("# Crane guide\n\n## Wind\n\nThe crane stops at wind above 20 metres a second.\n")
    gold = GoldSet((GoldQuestion("hi", "hi", False, kind=NOT_A_QUESTION),))
    with published(cut("site", file_pages(site, "md")), tmp_path / "home") as pipeline:
        (judged,) = ask(pipeline, gold)
    assert judged.group == NOT_A_QUESTION
