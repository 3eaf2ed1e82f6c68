"""A damaged candidate is stopped by a check or gate that names the damage; what is published stays."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from support import damaged
from support.damaged import INDEXED, MADE, ROOT, TENANT, Sample
from typer.testing import CliRunner

from citelock_governance.audit.verification import Verifier, pages
from evals.evaluation.cli import app as gold_commands
from rag_assets.publishing import lexical_writer
from rag_assets.steps import incremental
from rag_assets.steps.chunks.chunking import build_chunks
from rag_serving.indexes.catalog import list_generations
from rag_serving.text.analyzer import STOP_WORDS

EDITS = count(1)
SPACES = ("OPS",)
REBUILDS = int(os.environ.get("CITELOCK_REBUILDS", "1"))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some pages of the sample, published without gold questions: what a check stops is never asked any.

    The inputs of another generation than the published one are made up to its vectors.
    """
    sample = Sample(tmp_path_factory.mktemp("prepared"), SPACES, judged=False, most=5)
    sample.ingest()
    assert sample.publish().success
    sample.edit_page(next(EDITS))
    assert sample.run(TENANT, MADE).success
    return sample.config_path.parent


@pytest.fixture
def unjudged(prepared: Path, tmp_path: Path) -> Sample:
    return Sample.copy(prepared, tmp_path, SPACES, judged=False)


def failures(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    """The blocking checks that failed, by name."""
    found = result.get_asset_check_evaluations()
    return {check.check_name: check.description or "" for check in found if not check.passed and check.blocking}


def errors(result: dg.ExecuteInProcessResult) -> list[str]:
    """What stopped the steps that failed."""
    return [str(event.event_specific_data) for event in result.all_events if event.is_step_failure]


@pytest.mark.parametrize(
    ("damage", "check", "named"),
    [
        (damaged.shuffled_vectors, "embedded_again", "shuffled"),
        (damaged.wrong_prompt_prefix, "embedded_again", "wrong prompt prefix"),
        (damaged.no_prefix, "embedded_again", "wrong prompt prefix, .* without their context"),
        (damaged.half_of_the_chunks, "counts", r"chunks missing .* ops: \d+ of \d+"),
        (damaged.anchors_shifted, "anchors", "anchors shifted"),
        (damaged.models_mixed, "embedded_again", "embedding model mix-up"),
    ],
)
def test_damage_is_named_and_not_published(
    unjudged: Sample, damage: Callable[[Sample], None], check: str, named: str
) -> None:
    before = unjudged.current()
    damage(unjudged)
    result = unjudged.run(TENANT, INDEXED)
    assert not result.success
    assert re.search(named, failures(result)[check])
    assert unjudged.current() == before


def unstemmed(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS]


def test_an_index_without_stems_is_named_and_not_published(unjudged: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    before = unjudged.current()
    with monkeypatch.context() as patch:
        patch.setattr(lexical_writer, "word_terms", lambda _language: unstemmed)
        assert unjudged.run(TENANT, ["lexical_index"]).success
    result = unjudged.run(TENANT, [name for name in INDEXED if name != "lexical_index"])
    assert not result.success
    assert "stemmer off" in failures(result)["analyzed_again"]
    assert unjudged.current() == before


def test_a_damaged_candidate_can_be_inspected_until_the_damage_is_mended(unjudged: Sample) -> None:
    before = unjudged.current()
    damaged.shuffled_vectors(unjudged)
    assert not unjudged.run(TENANT, INDEXED).success
    newest = list_generations(unjudged.store, TENANT)[0]
    assert (newest.published, newest.problem) == (False, None)
    assert unjudged.publish().success
    assert unjudged.current() == newest.id != before


def halved(*arguments: Any, **options: Any) -> pa.Table:
    table = build_chunks(*arguments, **options)
    return table.take(list(range(0, len(table), 2)))


def test_a_gate_stops_chunks_that_were_lost_before_they_were_counted(
    unjudged: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = unjudged.current()
    monkeypatch.setattr(incremental, "build_chunks", halved)
    unjudged.ingest(full="true")
    result = unjudged.publish()
    assert not result.success
    assert "floor of text_kept" in failures(result)["quality_gates"]
    assert unjudged.current() == before


@pytest.mark.timeout(300 + 90 * REBUILDS)
def test_an_undamaged_rebuild_passes_every_time(published_sample: Path, tmp_path: Path) -> None:
    sample = Sample.copy(published_sample, tmp_path)
    for _ in range(REBUILDS):
        before = sample.current()
        sample.edit_page(next(EDITS))
        result = sample.publish()
        assert failures(result) == {}
        assert result.success, errors(result)
        assert sample.current() != before
        report = sample.report(sample.current() or "")
        assert report["compared_with"] == before
        assert any(gate["gate"].startswith("drop of") for gate in report["gates"])


def test_an_override_publishes_with_its_reason_written_down(
    unjudged: Sample, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sample, before = unjudged, unjudged.current()
    strict, gold = tmp_path / "strict.toml", tmp_path / "gold"
    strict.write_text("[floors]\nanswerability = 1.0\n", encoding="utf-8")
    content = yaml.safe_load((ROOT / "evals" / "gold" / "sample.yaml").read_text(encoding="utf-8"))
    of_pages = [one for one in content["questions"] if any(one.get("page") == page.stem for page in sample.pages)][:4]
    missing = {**of_pages[0], "id": "missing", "question": "Who painted the ceiling of the Sistine Chapel?"}
    gold.mkdir()
    (gold / "few.yaml").write_text(yaml.safe_dump({**content, "questions": [*of_pages, missing]}), encoding="utf-8")
    monkeypatch.setenv("CITELOCK_EVALUATION__GATES", str(strict))
    monkeypatch.setenv("CITELOCK_EVALUATION__GOLD", str(gold))
    monkeypatch.setenv("CITELOCK_AUDIT__MODE", "required")
    sample.edit_page(next(EDITS))
    result = sample.publish()
    assert re.search(
        r"floor of answerability: 0\.\d+ over \d+ questions.* \(see \S+", failures(result)["quality_gates"]
    )
    assert sample.current() == before
    assert list_generations(sample.store, TENANT)[0].gates == "gates failed: floor of answerability"
    assert sample.publish(override_gates="the questions are too hard").success
    now = list_generations(sample.store, TENANT)[0]
    assert (now.current, now.gates) == (True, "gates overridden: the questions are too hard")
    with Verifier(sample.store.home, None).reading() as connection:
        (row,) = [row for page in pages(connection, TENANT) for row in page if row["kind"] == "gates.overridden"]
    assert row["subject"] == now.id
    details = json.loads(row["details"])
    assert (details["reason"], details["gates"]) == ("the questions are too hard", ["floor of answerability"])


def test_gold_check_names_what_is_gone_from_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = Sample(tmp_path, ["OPS"])
    half.ingest()
    result = CliRunner().invoke(gold_commands, ["check", "--config", str(half.config_path)])
    assert result.exit_code == 1
    assert "hbl-4012: page 1311023 is gone" in result.output  # of the space that this home lacks
    assert "customer-meal" not in result.output
    monkeypatch.setenv("CITELOCK_HOME", str(tmp_path / "nothing"))
    result = CliRunner().invoke(gold_commands, ["check", "--config", str(half.config_path)])
    assert "run `citelock build`" in str(result.exception)
