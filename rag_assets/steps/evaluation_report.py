"""What an evaluation tells people: figures, gates, and the worst questions first.

Belongs here: an `eval_report.json` as a report. Does not belong here: how a report looks (`report`, `report_html`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_assets.steps.report import Case, Figure, Report, Table


def evaluation_report(facts: Mapping[str, Any]) -> Report:
    """The content of `eval_report.json` as a report."""
    failed = [gate for gate in facts["gates"] if not gate["passed"]]
    return Report(
        title=f"Evaluation of generation {facts['generation']}",
        about=_about(facts),
        figures=[
            Figure(
                "gates",
                f"{len(failed)} of {len(facts['gates'])} failed" if failed else f"all {len(facts['gates'])} passed",
                "bad" if failed else "good",
                f"overridden: {facts['override']}" if facts["override"] else "",
            ),
            *_figures(facts["summary"]),
        ],
        tables=[_gates(facts["gates"]), *_latency(facts["evaluation"] or {}), *_stale(facts["gold"]["stale"])],
        cases=[_case(case) for case in facts["cases"]],
        cases_title="Questions, the worst first",
        facts={"compared with": facts["compared_with"] or "nothing", "seconds": f"{facts['seconds']:.1f}"},
    )


def _about(facts: Mapping[str, Any]) -> str:
    gold = facts["gold"]
    if facts["note"]:
        return f"{facts['note']}, {facts['created_at']}"
    return f"{gold['asked']} of {gold['questions']} questions asked, {facts['created_at']}"


def _figures(summary: Mapping[str, Mapping[str, Any]]) -> list[Figure]:
    return [
        Figure(
            name.replace("_", " "),
            f"{told['mean']:.3f}",
            note=f"{told['low']:.3f}–{told['high']:.3f} over {told['questions']}" if "low" in told else "",
        )
        for name, told in summary.items()
    ]


def _gates(gates: list[Mapping[str, Any]]) -> Table:
    rows = [
        {
            "gate": gate["gate"],
            "passed": gate["passed"],
            "found": gate["detail"],
            "questions": ", ".join(gate["questions"]),
        }
        for gate in sorted(gates, key=lambda gate: bool(gate["passed"]))
    ]
    return Table("Gates", ["gate", "passed", "found", "questions"], rows)


def _latency(evaluation: Mapping[str, Any]) -> list[Table]:
    rows = [
        {"stage": stage, "p50 ms": times["p50"], "p95 ms": times["p95"]}
        for stage, times in evaluation.get("latency_ms", {}).items()
    ]
    return [Table("Latency per stage", ["stage", "p50 ms", "p95 ms"], rows)] if rows else []


def _stale(lines: list[str]) -> list[Table]:
    rows = [{"entry": line} for line in lines]
    return [Table("Gold entries that no longer stand in the pages", ["entry"], rows)] if rows else []


def _case(case: Mapping[str, Any]) -> Case:
    parts = [("question", case["question"]), ("answer", case["answer"])]
    if case["expected"]:
        parts.append(("expected", case["expected"]))
    parts += [("gold quote", quote) for quote in case["quotes"]]
    parts += [
        (f"citation [{citation['index']}] {citation['verification']}", f"{citation['quote']}\n{citation['url']}")
        for citation in case["citations"]
    ]
    parts += [(f"passage: {' › '.join(_path(passage))}", str(passage.get("text", ""))) for passage in case["passages"]]
    status = case["fault"] or case["status"]
    return Case(f"{case['id']}: {case['question']}", status, "bad" if case["fault"] else "good", parts)


def _path(passage: Mapping[str, Any]) -> list[str]:
    return [str(part) for part in passage.get("heading_path") or [passage.get("title", "")]]
