"""A gold set asked with stages on and off, over the small wiki."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from test_evaluate import LOGS, SALARY, WON
from wiki import configuration

from rag_serving.evaluation.answer_ablation import ANSWER_VARIANTS, ablate_answers, to_csv
from rag_serving.evaluation.gold import GoldSet

CHOSEN = ("defaults", "lexical only", "context: none", "without gates")


def test_every_variant_gives_a_row_and_the_first_is_what_others_are_compared_with(wiki_home: Path) -> None:
    variants = [variant for variant in ANSWER_VARIANTS if variant.name in CHOSEN]
    told: list[int] = []
    config = configuration(wiki_home)
    rows = ablate_answers(
        config, "acme", GoldSet((LOGS, WON, SALARY), "acme"), lambda _, done, __: told.append(done), variants
    )
    assert [row["variant"] for row in rows] == list(CHOSEN)
    assert told == [1, 2, 3, 4]
    assert rows[0]["p"] == 1.0
    assert rows[0]["recall@10"] == 1.0
    assert rows[0]["answerability"] == 1.0
    assert rows[-1]["not_found_recall"] <= rows[0]["not_found_recall"]
    table = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert [row["variant"] for row in table] == list(CHOSEN)
    assert float(table[0]["map"]) == rows[0]["map"]
    assert not (wiki_home / "receipts.db").exists()


def test_a_stage_is_one_thing_that_differs(wiki_home: Path) -> None:
    config = configuration(wiki_home)
    names = {variant.name for variant in ANSWER_VARIANTS}
    assert len(names) == len(ANSWER_VARIANTS)
    for variant in ANSWER_VARIANTS:
        changed = variant.of(config)
        is_other = changed != config or variant.retrieval.mode != "hybrid"
        assert is_other or variant.name in ("defaults", "context: none")
        assert (changed.home, changed.embedding) == (config.home, config.embedding)
