"""`python evals/bench/identity.py`: compare the results and answers of two versions of the code.

Belongs here: recording chunks, results and answers of one version; comparing two records.
Does not belong here: the quality of an answer (`evals.bench.people`, `citelock evaluate`).

`record CONFIG QUESTIONS OUT` queries the configuration's built home, as nobody in particular and as a member of each
`--group`; run it by path with PYTHONPATH at the checkout to be recorded. `compare OLD NEW` counts what differs and
exits with 1 if anything does. QUESTIONS has one question a line.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config

COLUMNS = ["chunk_id", "text", "anchor", "url", "start", "end", "heading_path", "content_type"]
TOLERANCE = 1e-9  # relative, of scores
RESULTS = 10

T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> int:
    """Record one version, or compare two records."""
    parser = argparse.ArgumentParser(description="Compare what two versions of the code find and answer.")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="write chunks, results and answers to OUT")
    recording.add_argument("config", type=Path)
    recording.add_argument("questions", type=Path)
    recording.add_argument("out", type=Path)
    recording.add_argument("--group", action="append", default=[], help="also ask as a member of these groups")
    comparing = commands.add_parser("compare", help="count what differs between two records")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "record":
        questions = [line for line in options.questions.read_text(encoding="utf-8").splitlines() if line.strip()]
        options.out.write_text(json.dumps(record(options.config, questions, options.group)), encoding="utf-8")
        return 0
    differences = compare(_read(options.old), _read(options.new))
    print("\n".join(f"{name}: {count}" for name, count in sorted(differences.items())) or "no difference")
    return 1 if differences else 0


def record(config_file: Path, questions: Sequence[str], groups: Sequence[str]) -> dict[str, Any]:
    """Return the chunks of all sources, and results and answer of each question for each reader."""
    config = load_config(config_file)
    tenant = next(iter(config.tenants))
    pipeline = Pipeline.open(config, tenant)
    readers = [Principal(tenant), *([Principal(tenant, None, frozenset(groups))] if groups else [])]
    milliseconds: dict[str, list[float]] = {"search": [], "ask": []}
    answers = [_asked(pipeline, reader, question, milliseconds) for reader in readers for question in questions]
    for name, values in milliseconds.items():
        print(f"{name}: p50 {statistics.median(values):.1f} ms of {len(values)}", file=sys.stderr)
    return {"chunks": _chunks(config.home), "answers": answers}


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Counter[str]:
    """Return the number of different chunks and answers, by the differing field.

    Raises:
        ValueError: the records are of different questions.
    """
    if [answer["question"] for answer in old["answers"]] != [answer["question"] for answer in new["answers"]]:
        raise ValueError("the records are of different questions")
    before, after = ({row[0]: row for row in side["chunks"]} for side in (old, new))
    differences = Counter({"chunks": sum(before.get(key) != after.get(key) for key in before.keys() | after.keys())})
    for earlier, later in zip(old["answers"], new["answers"], strict=True):
        differences.update(name for name in ("status", "answer", "citations", "flags") if earlier[name] != later[name])
        if [result[0] for result in earlier["results"]] != [result[0] for result in later["results"]]:
            differences["results"] += 1
        elif not all(map(_same_scores, earlier["results"], later["results"])):
            differences["scores"] += 1
    return +differences


def _same_scores(earlier: Sequence[Any], later: Sequence[Any]) -> bool:
    names = earlier[2].keys() | later[2].keys()
    pairs = [
        (earlier[1], later[1]),
        *((earlier[2].get(name, math.nan), later[2].get(name, math.nan)) for name in names),
    ]
    return all(math.isclose(left, right, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for left, right in pairs)


def _asked(
    pipeline: Pipeline, reader: Principal, question: str, milliseconds: Mapping[str, list[float]]
) -> dict[str, Any]:
    searched = _timed(milliseconds["search"], lambda: pipeline.search(reader, question, RESULTS, explain=True))
    answer = _timed(milliseconds["ask"], lambda: pipeline.ask(reader, question))
    return {
        "question": question,
        "results": [[result.chunk.chunk_id, result.score, dict(result.scores)] for result in searched.results],
        "status": answer.status,
        "answer": answer.answer,
        "citations": [[citation.url, citation.quote] for citation in answer.citations],
        "flags": list(answer.flags),
    }


def _timed(values: list[float], call: Callable[[], T]) -> T:
    began = time.perf_counter()
    result = call()
    values.append((time.perf_counter() - began) * 1000)
    return result


def _chunks(home: Path) -> list[list[Any]]:
    files = sorted(home.glob("sources/*/chunks.parquet"))
    return [list(row.values()) for file in files for row in pq.read_table(file, columns=COLUMNS).to_pylist()]


def _read(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


if __name__ == "__main__":
    sys.exit(main())
