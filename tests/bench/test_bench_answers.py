"""`python -m evals.bench.answers` on a small wiki: each way of asking is measured, and nothing fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from evals.bench.answers import main


def test_a_built_home_is_measured_in_the_process_from_a_cold_start_and_over_http(
    copied_wiki: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, gold = tmp_path / "app.yaml", tmp_path / "gold.yaml"
    config.write_text(f"home: {copied_wiki}\ntenants: {{acme: {{}}}}\n")
    questions = ["How long does a broker keep logs?", "When does an alert fire for consumer lag?"]
    entries = [{"id": f"q{n}", "question": text, "answerable": False} for n, text in enumerate(questions)]
    gold.write_text(yaml.safe_dump({"questions": entries}))
    arguments = ["--rounds", "1", "--starts", "1", "--clients", "2", "--workers", "1", "--seconds", "0.5"]
    assert main([str(config), str(gold), *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["questions"] == 2
    for way in ("in_process", "cold_start"):
        assert 0 < found[way]["cpu_p50_ms"] <= found[way]["cpu_p95_ms"]
        assert 0 < found[way]["p50_ms"] <= found[way]["p95_ms"]
    for turn in found["over_http"].values():
        assert turn["failures"] == 0
        assert turn["answers_per_s"] > 0
        assert turn["server_cpu_ms"] > 0
