"""The page says what the JSON beside it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evals.bench.report import (
    RANKINGS,
    SERVING,
    TIMES,
    empty_page,
    tables,
    with_tables,
    write_indexing,
    write_report,
)

DOCS = Path(__file__).parents[2] / "docs"


def results() -> dict[str, Any]:
    def ms(value: float) -> dict[str, float]:
        return {"p50": value, "p95": 2 * value}

    ranking = {
        "recall": {"5": 0.5, "10": 0.75, "20": 1.0, "100": 1.0},
        "ndcg": {"10": 0.6666},
        "mrr": {"10": 0.25},
        "latency_ms": ms(7.0),
        "latency_without_embedding_ms": ms(2.0),
    }
    judged = {"queries": 1234, "documents": 5, "judged": "pages", "rankings": dict.fromkeys(RANKINGS, ranking)}
    speed = {
        "chunks": 5183,
        "latency_ms": {name: ms(number + 1.0) for number, name in enumerate(TIMES)},
        "throughput_per_s": {"1_client": 100.0, "8_clients": 150.0, "ratio": 1.5},
        "over_http_per_s": {"2": {"1_client": 90.0, "8_clients": 180.0, "ratio": 2.0}},
        "recall_at_80": {"serving": 1.0, "chroma": "no graph"},
        "serving": dict.fromkeys(SERVING, 0.25),
        "seconds": {"index_and_publish": 12.0},
        "bytes": {"vectors": 1_000_000, "chroma": 2_000_000},
    }
    facts = {
        "when": "2024-01-01T00:00:00Z", "cores": 2, "processor": "P", "memory_gib": 24.0, "load_before": 0.1,
        "load_after": 1.0, "seconds": 60, "system": "Linux", "python": "3.11", "versions": {"numpy": "2"},
    }  # fmt: skip
    return {"machine": facts, "quality": {"harbour": judged}, "speed": [speed]}


def test_every_ranking_is_a_row_under_its_set() -> None:
    rows = tables(results())["quality"].splitlines()
    assert len(rows) == 2 + len(RANKINGS)
    assert rows[2].startswith(
        "| harbour: 1,234 queries, 5 passages, pages judged | **Citelock** | .500 | .750 | 1.000 "
    )
    assert rows[3].startswith("|  | floor: both below, ranks fused |")


def test_every_time_stands_in_the_speed_table() -> None:
    rows = tables(results())["speed"]
    for number, label in enumerate(TIMES.values()):
        assert f"| {label}, p50 / p95 | {number + 1:.1f} / {2 * number + 2:.1f} ms |" in rows
    assert "| eight callers in the process | 150 queries/s, 1.50 times |" in rows
    assert "| `citelock serve --workers 2`, one client | 90 queries/s |" in rows
    assert "| `citelock serve --workers 2`, eight clients | 180 queries/s, 2.00 times |" in rows
    assert "| recall@80 of Chroma's graphs alone | no graph |" in rows
    assert "| on disk | 3 MB |" in rows


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    page = "before\n<!-- begin speed -->\nold\n<!-- end speed -->\nafter\n"
    made = with_tables(page, {"speed": "new\n", "quality": "elsewhere\n"})
    assert made == "before\n<!-- begin speed -->\nnew\n<!-- end speed -->\nafter\n"
    assert with_tables(made, {"speed": "new\n"}) == made


def test_a_folder_gets_the_json_and_the_page(tmp_path: Path) -> None:
    write_report(results(), tmp_path)
    assert json.loads((tmp_path / "benchmarks.json").read_text()) == results()
    assert "harbour" in (tmp_path / "benchmarks.md").read_text()


def build_of(seconds: float, recall: float) -> dict[str, float]:
    return {
        "seconds": seconds, "check_s": 1.0, "processor_s": 2.0, "resident_mb": 3210.0, "without_files_mb": 1000.0,
        "disk_mb": 4896.0, "ann_recall": recall,
    }  # fmt: skip


def test_a_size_of_indexing_is_put_beside_those_measured_before(tmp_path: Path) -> None:
    page = tmp_path / "scale.md"
    page.write_text("before\n<!-- begin indexing -->\n<!-- end indexing -->\nafter\n")
    machine = {"load_before": 0.5, "load_after": 1.5}
    for chunks, seconds in ((250_000, 25.0), (100_000, 10.0), (250_000, 20.0)):
        report = {"first": build_of(seconds, 1.0), "changed": build_of(seconds / 4, 1.0), "machine": machine}
        write_indexing(chunks, report, tmp_path)
    rows = page.read_text().splitlines()
    assert rows[2].startswith("|  | 100,000 chunks, all | 100,000 chunks, 1 % of pages changed | 250,000 chunks, all |")
    assert "| wall | 10.0 s | 2.5 s | 20.0 s | 5.0 s |" in rows
    assert "| peak resident memory | 3,210 MB | 3,210 MB | 3,210 MB | 3,210 MB |" in rows
    assert "| load before / after | 0.5 / 1.5 | 0.5 / 1.5 | 0.5 / 1.5 | 0.5 / 1.5 |" in rows
    assert sorted(json.loads((tmp_path / "benchmarks-indexing.json").read_text())) == ["100000", "250000"]


def test_the_committed_page_is_made_from_the_committed_json() -> None:
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    measured = json.loads((DOCS / "benchmarks.json").read_text(encoding="utf-8"))
    assert all(f"begin {name} -->" in page for name in tables(measured))
    assert with_tables(page, tables(measured)) == page
    assert empty_page() != page
