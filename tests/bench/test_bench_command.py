"""`python -m evals.bench` on small sets: what it prints, keeps, and leaves behind when it is stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evals.bench.__main__ import STOPPED, main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("first", "second"):
        folder = tmp_path / "data" / name
        (folder / "qrels").mkdir(parents=True)
        rows = [{"_id": f"d{n}", "title": name, "text": f"The {word} is oiled weekly."} for n, word in enumerate(WORDS)]
        (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "When is the winch oiled?"}))
        (folder / "qrels" / "test.tsv").write_text("q\td1\t1\n")
    return tmp_path / "data"


WORDS = ("crane", "winch", "buoy", "anchor", "hull")


def test_every_set_is_measured_beside_the_floors(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["--data", str(data), "--cache", str(tmp_path / "cache"), "--docs", str(tmp_path), "--sizes"])
    told = capsys.readouterr()
    assert code == 0
    found = json.loads(told.out)
    assert list(found["quality"]) == ["first", "second"]
    assert set(found["quality"]["first"]["rankings"]) == {
        "hybrid", "dense", "lexical", "floor_dense", "floor_bm25s", "floor_fused",
    }  # fmt: skip
    assert all(ranking["recall"]["5"] == 1 for ranking in found["quality"]["first"]["rankings"].values())
    assert found["machine"]["versions"]["numpy"]
    assert json.loads((tmp_path / "benchmarks.json").read_text()) == found
    assert told.err.count("measured") == 2
    assert not (tmp_path / "cache" / "unfinished.json").exists()


def test_without_data_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path), "--cache", str(tmp_path / "cache")]) == 1
    assert "has no judged set" in capsys.readouterr().err


def test_stopped_it_keeps_what_was_measured(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evals.bench", "--data", str(data), "--cache", str(tmp_path / "cache")]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stderr
        assert "first measured" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    assert running.returncode == STOPPED
    assert err.splitlines()[-1].startswith("bench: stopped")
    assert "Traceback" not in err
    assert out == ""
    assert list(json.loads((tmp_path / "cache" / "unfinished.json").read_text())["quality"]) == ["first"]
