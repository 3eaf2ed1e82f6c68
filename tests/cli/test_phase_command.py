"""`citelock phase`: the phase of each tenant, what sets it, which phases answered lately."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert
from support.command_line import run, write_config

from rag_serving.artifacts.store import Store
from rag_serving.telemetry.tables import METADATA, QUESTIONS, opened


def shown(config: str, *arguments: str) -> dict[str, Any]:
    code, out, err = run("phase", "--config", config, "--json", *arguments)
    assert code == 0, err
    (told,) = json.loads(out)
    assert isinstance(told, dict)
    return told


def test_the_default_is_phase_3(tmp_path: Path) -> None:
    code, out, _ = run("phase", "--config", write_config(tmp_path, tmp_path / "home"))
    assert code == 0
    assert out == (
        "acme: phase 3 (words and meaning), by the default of retrieval.phase; no question in the last hour\n"
    )
    assert not (tmp_path / "home").exists(), "nothing is written"


@pytest.mark.parametrize(
    ("more", "variables", "phase", "why"),
    [
        ("retrieval: {phase: 2}", {}, 2, "retrieval.phase"),
        ("retrieval: {phase: 2}", {"CITELOCK_RETRIEVAL__PHASE": "1"}, 1, "CITELOCK_RETRIEVAL__PHASE"),
        ("retrieval: {phase: 2}", {"DOC_RETRIEVAL_PHASE": "1"}, 1, "DOC_RETRIEVAL_PHASE"),
        ("retrieval: {enabled: false}", {}, None, "retrieval.enabled"),
        ("", {"DOC_RETRIEVAL_ENABLED": "false"}, None, "DOC_RETRIEVAL_ENABLED"),
        (
            "",
            {"CITELOCK_TENANTS__ACME__RETRIEVAL__PHASE": "2"},
            2,
            "CITELOCK_TENANTS__ACME__RETRIEVAL__PHASE",
        ),
    ],
)
def test_what_sets_it_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: str,
    variables: dict[str, str],
    phase: int | None,
    why: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    told = shown(write_config(tmp_path, tmp_path / "home", more))
    assert (told["phase"], told["why"]) == (phase, why)


def test_a_tenant_s_own_and_a_trial_are_told(tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    trial = "{phase: 2, canary: {features: {FEATURE_RM3: true}, spaces: [OPS]}}"
    path.write_text(f"home: {tmp_path}\ntenants: {{a: {{retrieval: {trial}}}, b: {{}}}}\n", encoding="utf-8")
    told = shown(str(path), "--tenant", "a")
    assert (told["phase"], told["why"]) == (2, "tenants.a.retrieval.phase")
    assert told["canary"] == "FEATURE_RM3: true in OPS"
    assert len(run("phase", "--config", str(path))[1].splitlines()) == 2


def test_an_unknown_tenant_is_wrong_usage(tmp_path: Path) -> None:
    code, _, err = run("phase", "--config", write_config(tmp_path, tmp_path / "home"), "--tenant", "other")
    assert code == 2
    assert "acme" in err


def test_what_answered_lately_is_counted_and_the_doctor_warns(tmp_path: Path) -> None:
    home, now = tmp_path / "home", time.time()
    home.mkdir()
    rows = [(3, "acme", now), (3, "acme", now), (2, "acme", now), (None, "acme", now)]
    rows += [(1, "acme", now - 7200), (1, "other", now)]
    with opened(None, Store(home).serving_db()) as engine:
        METADATA.create_all(engine)
        with engine.begin() as connection:
            connection.execute(insert(QUESTIONS), [_row(number, *row) for number, row in enumerate(rows)])
    config = write_config(tmp_path, home)
    assert shown(config)["answered_last_hour"] == {"3": 2, "2": 1, "none": 1}
    found = {each["name"]: each for each in json.loads(run("doctor", "--config", config, "--json")[1])}
    assert found["phases"]["state"] == "warn"
    assert "2 in phase 3, 1 in phase 2, 1 without a phase" in found["phases"]["detail"]


def test_a_database_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    Store(home).serving_db().write_bytes(b"no database" * 1000)
    told = shown(write_config(tmp_path, home))
    assert (told["phase"], told["answered_last_hour"]) == (3, None)


def _row(number: int, phase: int | None, tenant: str, at: float) -> dict[str, Any]:
    empty = {column.name: "" for column in QUESTIONS.columns if not column.nullable}
    numbers = dict.fromkeys(("total_ms", "claims", "verified", "tokens_in", "tokens_out", "cost"), 0)
    lists = {name: [] for name in ("timings_ms", "candidates", "locked", "verdicts", "flags")}
    own = {"id": str(number), "at": at, "day": "2026-01-01", "tenant": tenant, "kind": "ask", "phase": phase}
    return {**empty, **numbers, **lists, **own}
