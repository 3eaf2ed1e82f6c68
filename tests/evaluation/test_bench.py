"""The benchmark on a collection made here, with the real model, the real indexes and the real retrieval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from evals.evaluation.beir import read_collection
from evals.evaluation.bench import chunk_table, run_bench
from evals.evaluation.cli import BenchProgress
from evals.evaluation.cli import bench_command as command
from rag_serving.config.loading import parse_config
from rag_serving.models import open_tokenizer

REAL = Path(__file__).parents[3] / "shared" / "data" / "contextual-retrieval"
TOPICS = {
    "deploy": "Roll back a deployment with kubectl rollout undo and check that the pods are ready.",
    "vacation": "Employees request holidays in the portal; their manager approves within three days.",
    "kafka": "Set retention.ms on a topic to delete records of the log that are older than a week.",
    "coffee": "The espresso machine in the kitchen is cleaned every evening with the blue tablets.",
    "oncall": "The engineer on call acknowledges an alert within five minutes or it escalates.",
    "invoice": "Invoices are paid thirty days after receipt; scan them to the finance mailbox.",
}
QUESTIONS = {
    "deploy": "How do I undo a rollout?",
    "vacation": "Who approves my holidays?",
    "kafka": "retention.ms",
    "coffee": "How often is the espresso machine cleaned?",
    "oncall": "When does an unacknowledged alert escalate?",
    "invoice": "When are invoices paid?",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("beir")
    (folder / "qrels").mkdir()
    corpus = [
        {"_id": f"doc/{name}", "title": f"Handbook {name}", "text": text, "metadata": {"doc_id": "book", "position": n}}
        for n, (name, text) in enumerate(TOPICS.items())
    ]
    queries = [{"_id": f"q-{name}", "text": text} for name, text in QUESTIONS.items()]
    judged = "".join(f"q-{name}\tdoc/{name}\t1\n" for name in QUESTIONS)
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


def bench(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_every_mode_finds_what_is_asked_for(folder: Path, tmp_path: Path, mode: Any) -> None:
    found = run_bench(read_collection(folder), tmp_path, parse_config({}), mode).payload()
    assert (found["queries"], found["documents"], found["mode"]) == (6, 6, mode)
    assert list(found["recall"]) == ["5", "10", "20", "100"]
    assert found["recall"]["5"] == 1
    assert found["mrr"]["10"] > 0.8
    assert found["ndcg"]["10"] > 0.8
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["p95"]
    assert found["latency_without_embedding_ms"]["p50"] <= found["latency_ms"]["p50"]
    assert found["index_seconds"] > 0


def test_a_kept_index_is_used_again(folder: Path, tmp_path: Path) -> None:
    first = json.loads(bench(folder, "--index", tmp_path / "kept", "--json").stdout)
    second = json.loads(bench(folder, "--index", tmp_path / "kept", "--json").stdout)
    assert (first["texts_embedded"], second["texts_embedded"]) == (6, 0)
    assert {key: first[key] for key in ("recall", "ndcg", "mrr")} == {
        key: second[key] for key in ("recall", "ndcg", "mrr")
    }
    assert (tmp_path / "kept" / "tenants" / "bench" / "generations").is_dir()


def test_a_program_that_reads_the_run_gets_the_same_figures(folder: Path, tmp_path: Path) -> None:
    found = json.loads(bench(folder, "--run-file", tmp_path / "run.txt", "--json").stdout)
    runs: dict[str, list[tuple[np.float32, str]]] = {}
    for line in (tmp_path / "run.txt").read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        runs.setdefault(query, []).append((np.float32(score), document))
    ranks = []
    for query, scored in runs.items():
        ordered = [document for _, document in sorted(scored, key=lambda pair: (-pair[0], pair[1]))]
        ranks.append(ordered.index(f"doc/{query.removeprefix('q-')}") + 1)
    assert found["mrr"]["10"] == pytest.approx(np.mean([1 / rank for rank in ranks]), abs=1e-6)
    assert found["ndcg"]["10"] == pytest.approx(np.mean([1 / np.log2(rank + 1) for rank in ranks]), abs=1e-6)


def test_people_get_a_table(folder: Path, tmp_path: Path) -> None:
    shown = bench(folder, "--index", tmp_path, "--mode", "lexical").stdout
    assert "6 queries, 6 documents, lexical" in shown
    assert "recall@5    1.0000" in shown
    assert "latency" in shown


def test_documents_of_a_file_are_chunks_of_a_page_in_order(folder: Path) -> None:
    documents = read_collection(folder).documents[::-1]
    table, ids = chunk_table(documents, open_tokenizer(parse_config({}).embedding))
    assert table["chunk_id"].to_pylist() == [f"book:1:{n}" for n in range(6)]
    assert list(ids.values()) == [f"doc/{name}" for name in TOPICS]
    assert table["prefix"][0].as_py() == "Handbook deploy"
    assert min(table["token_count"].to_pylist()) > 10


def test_a_page_is_found_where_its_best_passage_is(tmp_path: Path, folder: Path) -> None:
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    for number, row in enumerate(corpus):
        row["metadata"] = {"doc_id": f"p{number // 2}", "position": number}
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": QUESTIONS["kafka"]}) + "\n")
    (tmp_path / "qrels" / "test.tsv").write_text("q\tp1\t1\n")
    run = tmp_path / "run.txt"
    assert bench(tmp_path, "--run-file", run).exit_code == 0
    found = [line.split()[2] for line in run.read_text().splitlines()]
    assert found[0] == "p1"
    assert len(found) == len(set(found))


def test_without_contexts_no_prefix_is_indexed(folder: Path) -> None:
    documents = read_collection(folder).documents
    table, _ = chunk_table(documents, open_tokenizer(parse_config({}).embedding), contexts=False)
    assert set(table["prefix"].to_pylist()) == {""}


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["nowhere"], "nowhere/corpus.jsonl does not exist", 1),
        (["{folder}", "--split", "dev"], "qrels/dev.tsv does not exist", 1),
        (["{folder}", "--config", "nowhere.yaml"], "configuration nowhere.yaml cannot be read", 2),
        (["{folder}", "--run-file", "/nowhere/run"], "/nowhere/run cannot be written", 1),
    ],
)
def test_errors_are_one_line(folder: Path, arguments: list[str], said: str, code: int) -> None:
    result = bench(*(argument.format(folder=folder) for argument in arguments))
    assert result.exit_code == code
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_long_work_is_told_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    progress = BenchProgress(clock=iter([0.0, 6.0, 7.0, 20.0]).__next__)
    for done in (0, 64, 128, 192):
        progress("texts embedded", done, 640)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "citelock: 64 of 640 texts embedded, about 54 s left",
        "citelock: 192 of 640 texts embedded, about 47 s left",
    ]


@pytest.mark.skipif(not REAL.is_dir(), reason="../shared/data/contextual-retrieval is not here")
def test_a_few_real_documents_are_found(tmp_path: Path) -> None:
    documents = (REAL / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[:30]
    kept = {json.loads(line)["_id"] for line in documents}
    judged = [line.split("\t") for line in (REAL / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    outside = {query for query, document, _ in judged if document not in kept}
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text("\n".join(documents), encoding="utf-8")
    (tmp_path / "queries.jsonl").write_bytes((REAL / "queries.jsonl").read_bytes())
    (tmp_path / "qrels" / "test.tsv").write_text(
        "".join("\t".join(row) + "\n" for row in judged if row[0] not in outside)
    )
    found = run_bench(read_collection(tmp_path), tmp_path / "index", parse_config({})).payload()
    assert found["documents"] == 30
    assert found["recall"]["20"] > 0.9
