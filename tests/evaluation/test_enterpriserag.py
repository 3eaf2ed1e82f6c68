"""EnterpriseRAG-Bench's layout, with documents and questions of our own: its dialects, figures and file of answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from evals.evaluation.cli import bench_command as command

PARKING = """# Parking at the depot

Vans are parked in row seven of the depot overnight. The key of each van is left in the grey box beside the gate.

## Charging

Electric vans are charged between 22:00 and 05:30. A van that is not plugged in by 22:15 sends an alert.
"""
MESSAGES = (
    "Ida: The label printer is stuck again.\nTom: Hold its feed button for nine seconds, then it prints a test page."
)
REFUND = ["Refunds above 400 euros need the signature of the regional manager.", "They are paid within 12 days."]
QUESTIONS: list[dict[str, Any]] = [
    {
        "question_id": "q1", "question_type": "basic", "question": "When are electric vans charged?",
        "expected_doc_ids": ["dsid_vans"], "answer_facts": ["Electric vans are charged between 22:00 and 05:30."],
    },
    {
        "question_id": "q2", "question_type": "basic", "question": "Who has to sign refunds above 400 euros?",
        "expected_doc_ids": ["dsid_refund", "dsid_gone"],
        "answer_facts": ["Refunds above 400 euros need the regional manager's signature.", "They are paid in 19 days."],
    },
    {
        "question_id": "q3", "question_type": "semantic", "question": "How long is the printer's feed button held?",
        "expected_doc_ids": ["dsid_print"], "answer_facts": ["The feed button is held for nine seconds."],
    },
    {
        "question_id": "q4", "question_type": "info_not_found", "question": "Which submarine did the poet buy?",
        "expected_doc_ids": [], "answer_facts": [],
    },
]  # fmt: skip


def document(identifier: str, content: dict[str, Any], title: str, *names: str) -> dict[str, Any]:
    return {**content, "title_field_name": title, "content_field_names": names, "dataset_doc_uuid": identifier}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "generated_data"
    files = {
        "sources/slack/eng/171.json": document(
            "dsid_print", {"channel": "help", "messages": MESSAGES}, "channel", "messages"
        ),
        "sources/hubspot/refund.json": document("dsid_refund", {"name": "Refunds", "notes": REFUND}, "name", "notes"),
        "projects/charging.json": {"name": "a plan, which is no document"},
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    (folder / "confluence").mkdir()
    (folder / "confluence" / "dsid_vans__depot.txt").write_text("Depot\n\n" + PARKING)
    (folder / "confluence" / "README.txt").write_text("no document either")
    (folder / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in QUESTIONS))
    return folder


def bench(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [*map(str, arguments), "--layout", "enterpriserag"])


def test_documents_and_facts_are_counted_by_kind_and_answers_written(folder: Path, tmp_path: Path) -> None:
    run = bench(folder, "--json", "--run-file", tmp_path / "answers.jsonl", "--index", tmp_path / "index")
    assert run.exit_code == 0, run.output
    figures = json.loads(run.stdout)
    assert list(figures) == ["all", "basic", "semantic", "info_not_found"]
    assert (figures["basic"]["questions"], figures["basic"]["recall@10"]) == (2, 0.75)  # one document is not there
    assert figures["basic"]["recall_cited"] == 0.75
    assert figures["basic"]["facts_shown"] == 0.75  # 19 days are nowhere
    assert (figures["semantic"]["recall@10"], figures["semantic"]["facts_shown"]) == (1, 1)
    gone = figures["info_not_found"]
    assert (gone["recall@10"], gone["facts_shown"], gone["answered"]) == (None, None, 0)
    assert figures["all"]["recall@10"] == pytest.approx(2.5 / 3, abs=1e-4)
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [line["question_id"] for line in lines] == ["q1", "q2", "q3", "q4"]
    assert lines[0]["document_ids"] == ["dsid_vans"]
    assert "22:00" in lines[0]["answer"]


def test_people_get_a_row_for_each_kind(folder: Path) -> None:
    rows = bench(folder).stdout.splitlines()
    assert rows[0] == "| kind | questions | recall@10 | recall_cited | extra_cited | facts_shown | answered |"
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| all", "| basic", "| semantic", "| info_not_found"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "questions.jsonl",
            '{"question": "When?"}\n',
            "questions.jsonl:1: an object with `question_id` and `question`",
        ),
        ("questions.jsonl", "", "has no questions"),
        ("questions.jsonl", None, "questions.jsonl does not exist"),
    ],
)
def test_another_layout_is_named_in_one_line(folder: Path, name: str, content: str | None, said: str) -> None:
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_text(content)
    run = bench(folder)
    assert (run.exit_code, run.stdout, run.stderr.count("\n")) == (1, "", 1)
    assert said in run.stderr
