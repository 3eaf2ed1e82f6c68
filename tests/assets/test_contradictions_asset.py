"""The asset `contradictions` of a published wiki: its check, its report, and what is made again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from support.building import BuiltAs
from support.command_line import run
from support.envelopes import SECTION, Wiki, envelope
from support.project import Project

from rag_assets.state import contradictions as state
from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.telemetry.telemetry import open_telemetry

KEPT = "Every gate recording is kept for {days} days on the log server."
LINK = '<p>See <ac:link><ri:page ri:content-title="Nowhere" /></ac:link>.</p>'


@pytest.fixture
def contradicted(built_as: BuiltAs) -> Iterator[Project]:
    """The project of a wiki with two contradictions, one of them in a space of its own, and a dead link."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield Project(built_as("contradicted", write_contradictions), instance)


def write_contradictions(wiki: Wiki) -> None:
    for number, days in ((501, 35), (502, 90)):
        text = SECTION.format(heading="Recordings", text=KEPT.format(days=days))
        wiki.write("eng", envelope(str(number), f"Gate {number}", text))
    first = SECTION.format(heading="Hours", text="The harbour office is open until 17:00 on every working day.")
    second = SECTION.format(heading="Hours", text="The harbour office is open until 18:30 on every working day.")
    wiki.write("eng", envelope("503", "Offices", first + LINK))
    wiki.write("eng", envelope("504", "Visitors", second))


def made(project: Project) -> tuple[dict[str, Any], dg.AssetCheckEvaluation]:
    """The metadata of the asset, and what its check says."""
    result = project.materialize("contradictions")
    assert result.success
    (asset,) = result.asset_materializations_for_node("contradictions")
    (check,) = result.get_asset_check_evaluations()
    return {name: value.value for name, value in asset.metadata.items()}, check


def test_what_differs_is_quoted_with_links_and_fails_the_check_until_it_is_acknowledged(
    contradicted: Project,
) -> None:
    found, check = made(contradicted)
    assert (found["contradiction"], found["dead_link"]) == (2, 1)
    assert not check.passed
    assert check.severity == dg.AssetCheckSeverity.WARN
    page = Path(found["html"]).read_text(encoding="utf-8")
    for days in (35, 90):
        assert KEPT.format(days=days) in page
    assert "https://wiki.example/display/ENG/501#" in page
    assert "Nowhere" in page
    assert "/v1/reports/quality?tenant=demo" in page
    config = str(contradicted.wiki.config_path)
    code, out, _ = run("lint", "--config", config, "--format", "json")
    assert code == 1
    entries = [{"id": one["id"], "reason": "known"} for one in yaml.safe_load(out)["findings"]]
    known = contradicted.wiki.folder / "acknowledged"
    known.mkdir()
    (known / "demo.yaml").write_text(yaml.safe_dump({"acknowledged": entries}), encoding="utf-8")
    contradicted.wiki.configure(evaluation={"gold": str(known.with_name("gold"))})
    found, check = made(contradicted)
    assert check.passed
    assert (found["dagster/row_count"], found["acknowledged"]) == (0, 3)
    assert run("lint", "--config", config)[0] == 0


def test_the_most_asked_about_comes_first(contradicted: Project) -> None:
    config = load_config(contradicted.wiki.config_path)
    before = made(contradicted)[0]["report"]
    assert before.index("The harbour office") < before.index("Every gate recording")
    pipeline = Pipeline.open(config, "demo", telemetry=open_telemetry(config, "demo"))
    for _ in range(2):
        pipeline.ask(Principal("demo", "ann"), "For how many days is a gate recording kept?")
    pipeline.close()
    after = made(contradicted)[0]["report"]
    assert after.index("Every gate recording") < after.index("The harbour office")
    assert "asked 2 times" in after


def test_nothing_is_compared_again_until_a_page_changes(contradicted: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = state.read_corpus
    monkeypatch.setattr(state, "read_corpus", lambda *given: read.append(given[2]) or real(*given))
    made(contradicted)
    assert made(contradicted)[0]["contradiction"] == 2
    assert read == ["demo"]
    text = SECTION.format(heading="Recordings", text=KEPT.format(days=35))
    contradicted.wiki.write("eng", envelope("502", "Gate 502", text, version=2))
    contradicted.build()
    assert made(contradicted)[0]["contradiction"] == 1
    assert read == ["demo", "demo"]
