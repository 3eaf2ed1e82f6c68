"""Other libraries beside the product: the command with a harness that only writes results, and the committed table."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from evals.bench.peers import compare
from evals.bench.report import with_tables

DOCS = Path(__file__).parents[2] / "docs"
HARNESS = """
import json, os, sys
task, peer, out = sys.argv[2], sys.argv[3], sys.argv[5]
if peer == "txtai":
    sys.exit("broken")
found = json.load(open(out)) if os.path.exists(out) else {}
metrics = {"pass@5": 0.5, "pass@10": 0.6, "pass@20": 0.7, "ndcg@10": 0.8, "recall@100": 0.9}
entry = {"quality": {"hybrid": metrics}}
if "--no-latency" not in sys.argv:
    entry["latency"] = {"hybrid": {"total_p50_ms": 12.34, "no_embed_cpu_p50_ms": 1.0}}
found.setdefault(peer, {})[f"quality:{task}"] = entry
json.dump(found, open(out, "w"))
assert os.path.isdir(os.environ["BENCH_MODEL"]) and os.path.isdir(os.environ["BENCH_DATA"])
"""


def test_every_library_that_ran_is_a_row_and_one_that_failed_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    harness = tmp_path / "harness"
    harness.mkdir()
    (harness / "run.py").write_text(HARNESS)
    (tmp_path / "benchmarks.md").write_text("<!-- begin peers -->\n<!-- end peers -->\n")
    folders = ["--harness", harness, "--scratch", tmp_path / "scratch", "--data", tmp_path, "--docs", tmp_path]
    chosen = ["--peers", "citelock", "haystack", "txtai", "--no-latency", "haystack"]
    assert compare.main([*map(str, ["--python", sys.executable, *folders]), *chosen]) == 1
    assert "failed: txtai on contextual-retrieval, txtai on SciFact" in capfd.readouterr().err
    rows = (tmp_path / "benchmarks.md").read_text().splitlines()[5:-1]
    assert rows == [
        "| citelock | 0.500 | 0.600 | 0.700 | 0.800 | 0.900 | 12.3 |  |  | 1.0 |",
        "| haystack | 0.500 | 0.600 | 0.700 | 0.800 | 0.900 |  |  |  |  |",
    ]
    assert set(json.loads((tmp_path / "peers.json").read_text())["peers"]) == {"citelock", "haystack"}


@pytest.mark.skipif(not (DOCS / "peers.json").is_file(), reason="docs/peers.json is not committed")
def test_the_committed_table_is_made_from_the_committed_json() -> None:
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    measured = json.loads((DOCS / "peers.json").read_text(encoding="utf-8"))
    assert "begin peers -->" in page
    assert with_tables(page, {"peers": compare.table(measured)}) == page
