"""Evaluations of two generations, and rows of questions, for reports on quality."""

from __future__ import annotations

from typing import Any

KEYS = [f"q{number}" for number in range(30)]


def facts(generation: str, at: str, right: int = 30, asked: list[str] = KEYS, failed: bool = False) -> dict[str, Any]:
    """An evaluation in which the first `right` questions were answered rightly."""
    values = {key: float(place < right) for place, key in enumerate(asked)}
    cases = [
        {
            "id": key,
            "question": f"What of {key}?",
            "status": "answered" if value else "not_found",
            "fault": None if value else "not answered: not_found",
            "answer": f"<b>{key}</b> it is." if value else "Not found in docs.",
            "citations": [{"quote": "it is", "url": "https://wiki.example/1#a"}] if value else [],
            "timings_ms": {"total": 10.0},
        }
        for key, value in values.items()
    ]
    mean = sum(values.values()) / len(values)
    return {
        "generation": generation,
        "created_at": at,
        "gold": {"asked": len(asked)},
        "gates": [{"gate": "answerability", "passed": not failed}],
        "summary": {"answerability": {"mean": mean}, "map": {"mean": 0.5}},
        "measures": {"answerability": values, "map": dict.fromkeys(asked, 0.5)},
        "evaluation": {"latency_ms": {"total": {"p50": 12.0}}},
        "cases": cases,
    }


FIRST, SECOND = (
    facts("g1", "2026-01-01T00:00:00+00:00"),
    facts("g2", "2026-01-05T00:00:00+00:00", right=20, failed=True),
)
PUBLISHED = {"g1": "2026-01-01T01:00:00+00:00", "g2": "2026-01-05T01:00:00+00:00"}


def asked(question: str, status: str, at: float, **more: Any) -> dict[str, Any]:
    row = {"kind": "ask", "question": question, "question_hash": f"{hash(question):x}", "status": status, "at": at}
    return {**row, "user_hash": "u", "refusal": None, **more}
