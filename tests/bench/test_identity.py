"""Two records of one set of questions: what differs is counted, what rounding changes is not."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from evals.bench.identity import compare, main

RECORD: dict[str, Any] = {
    "chunks": [["1:1:0", "Text."], ["1:1:1", "More."]],
    "answers": [
        {
            "question": "What?",
            "results": [["1:1:0", 0.5, {"dense": 0.25}], ["1:1:1", 0.4, {"dense": 0.2}]],
            "status": "answered",
            "answer": "Text. [1]",
            "citations": [["https://wiki/1#a", "Text."]],
            "flags": [],
        }
    ],
}


def changed(value: Any, *path: Any) -> dict[str, Any]:
    record = copy.deepcopy(RECORD)
    inner = record
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return record


@pytest.mark.parametrize(
    ("other", "differing"),
    [
        (RECORD, []),
        (changed(0.5 + 1e-12, "answers", 0, "results", 0, 1), []),
        (changed(0.5 + 1e-6, "answers", 0, "results", 0, 1), ["scores"]),
        (changed({"lexical": 0.25}, "answers", 0, "results", 0, 2), ["scores"]),
        (changed("1:1:9", "answers", 0, "results", 0, 0), ["results"]),
        (changed("not_found", "answers", 0, "status"), ["status"]),
        (changed([["1:1:0", "Text."]], "chunks"), ["chunks"]),
    ],
)
def test_what_differs_is_counted(other: dict[str, Any], differing: list[str]) -> None:
    assert sorted(compare(RECORD, other)) == differing


def test_records_of_different_questions_are_not_compared() -> None:
    with pytest.raises(ValueError, match="different questions"):
        compare(RECORD, changed("Why?", "answers", 0, "question"))


def test_the_exit_status_says_whether_anything_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, record in (("a", RECORD), ("b", RECORD), ("c", changed("refused", "answers", 0, "status"))):
        (tmp_path / name).write_text(json.dumps(record), encoding="utf-8")
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "c")]) == 1
    assert capsys.readouterr().out == "no difference\nstatus: 1\n"
