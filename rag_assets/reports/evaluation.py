"""What an evaluation tells people: figures, gates, and the worst questions first, beside those of another generation.

Belongs here: an `eval_report.json`, and the one it is compared with, as a report. Does not belong here: how a report
looks (`report`, `report_html`), drawing plots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_assets.reports.key_measures import KEY, key_first, words
from rag_assets.reports.report import Case, Cell, Figure, Plot, Report, Table, Tone

Facts = Mapping[str, Any]


def evaluation_report(facts: Facts, before: Facts | None = None, plots: Sequence[Plot] = ()) -> Report:
    """Return the content of `eval_report.json` as a report; `before` is that of the generation it is compared with."""
    failed = [gate for gate in facts["gates"] if not gate["passed"]]
    cases_before = {case["id"]: case for case in (before or {}).get("cases", ())}
    cases = sorted(facts["cases"], key=lambda case: _rank(case, cases_before.get(case["id"])))
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
            *_figures(facts["summary"], (before or {}).get("summary", {})),
        ],
        tables=[
            *_changed(cases, cases_before),
            _gates(facts["gates"]),
            *_measures(facts["summary"], (before or {}).get("summary", {})),
            _questions(cases),
            *_latency(facts["evaluation"] or {}, (before or {}).get("evaluation") or {}),
            *_stale(facts["gold"]["stale"]),
        ],
        plots=plots,
        cases=[_case(case, cases_before.get(case["id"])) for case in cases],
        cases_title="Questions, the worst first",
        facts={"compared with": facts["compared_with"] or "nothing", "seconds": f"{facts['seconds']:.1f}"},
    )


def measured(facts: Facts, before: Facts | None) -> dict[str, list[float]]:
    """Return the mean of each measure, with that of the other generation where there is one: what a plot shows."""
    other = (before or {}).get("summary", {})
    found = {name: facts["summary"][name]["mean"] for name in key_first(facts["summary"])}
    if not before:
        return {words(name): [mean] for name, mean in found.items()}
    return {words(name): [mean, other[name]["mean"]] for name, mean in found.items() if name in other}


def _rank(case: Facts, before: Facts | None) -> tuple[int, str]:
    """Return what became wrong first, then what is wrong, then what became right, then the rest."""
    was_wrong = bool(before and before["fault"])
    if case["fault"]:
        return (1 if was_wrong or before is None else 0), case["id"]
    return (2 if was_wrong else 3), case["id"]


def _about(facts: Facts) -> str:
    gold = facts["gold"]
    if facts["note"]:
        return f"{facts['note']}, {facts['created_at']}"
    return f"{gold['asked']} of {gold['questions']} questions asked, {facts['created_at']}"


def _figures(summary: Mapping[str, Facts], before: Mapping[str, Facts]) -> list[Figure]:
    """Return the measures that people look at first."""
    return [
        Figure(
            words(name),
            f"{summary[name]['mean']:.3f}",
            _tone(summary[name], before.get(name)),
            f"{meaning}; {_note(summary[name], before.get(name))}".removesuffix("; "),
        )
        for name, meaning in KEY.items()
        if name in summary
    ]


def _measures(summary: Mapping[str, Facts], before: Mapping[str, Facts]) -> list[Table]:
    """Return every measure with its interval."""
    rows: list[Mapping[str, Cell]] = [
        {
            "measure": words(name),
            "mean": told["mean"],
            "95 % interval": f"{told['low']:.3f} … {told['high']:.3f}" if "low" in told else "",
            "questions": told.get("questions"),
            **({"before": before[name]["mean"]} if name in before else {}),
        }
        for name, told in ((name, summary[name]) for name in key_first(summary))
    ]
    columns = ["measure", "mean", "95 % interval", "questions", *(["before"] if before else [])]
    return [Table("All measures", columns, rows)] if rows else []


def _tone(told: Facts, before: Facts | None) -> Tone:
    """Better or worse than before by more than the interval of its mean."""
    if before is None or "low" not in told:
        return "neutral"
    if before["mean"] > told["high"]:
        return "bad"
    return "good" if before["mean"] < told["low"] else "neutral"


def _note(told: Facts, before: Facts | None) -> str:
    parts = [f"was {before['mean']:.3f}"] if before else []
    if "low" in told:
        parts.append(f"{told['low']:.3f}–{told['high']:.3f} over {told['questions']}")
    return ", ".join(parts)


def _gates(gates: Sequence[Facts]) -> Table:
    rows: list[Mapping[str, Cell]] = [
        {
            "gate": gate["gate"],
            "passed": gate["passed"],
            "found": gate["detail"],
            "questions": ", ".join(gate["questions"]),
        }
        for gate in sorted(gates, key=lambda gate: bool(gate["passed"]))
    ]
    return Table("Gates", ["gate", "passed", "found", "questions"], rows)


def _changed(cases: Sequence[Facts], before: Mapping[str, Facts]) -> list[Table]:
    """Return the questions whose answer is judged otherwise than before."""
    rows: list[Mapping[str, Cell]] = [
        {"id": case["id"], "question": case["question"], "now": _judged(case), "before": _judged(before[case["id"]])}
        for case in cases
        if case["id"] in before and _judged(case) != _judged(before[case["id"]])
    ]
    return [Table("Judged otherwise than before", ["id", "question", "now", "before"], rows)] if rows else []


def _questions(cases: Sequence[Facts]) -> Table:
    rows: list[Mapping[str, Cell]] = [
        {
            "id": case["id"],
            "question": case["question"],
            "judged": _judged(case),
            "citations": len(case["citations"]),
            "tags": ", ".join(case["tags"]),
            "ms": case["timings_ms"].get("total"),
        }
        for case in cases
    ]
    return Table("Questions", ["id", "question", "judged", "citations", "tags", "ms"], rows)


def _latency(evaluation: Facts, before: Facts) -> list[Table]:
    other = before.get("latency_ms", {})
    rows: list[Mapping[str, Cell]] = [
        {"stage": stage, "p50 ms": each["p50"], "p95 ms": each["p95"], "p50 before": other.get(stage, {}).get("p50")}
        for stage, each in evaluation.get("latency_ms", {}).items()
    ]
    columns = ["stage", "p50 ms", "p95 ms", *(["p50 before"] if other else [])]
    return [Table("Time of each stage", columns, rows)] if rows else []


def _stale(lines: Sequence[str]) -> list[Table]:
    rows: list[Mapping[str, Cell]] = [{"entry": line} for line in lines]
    return [Table("Gold entries that no longer stand in the pages", ["entry"], rows)] if rows else []


def _case(case: Facts, before: Facts | None) -> Case:
    parts = [("expected", case["expected"])] if case["expected"] else []
    parts += [("gold quote", quote) for quote in case["quotes"]]
    parts += _answered(case)
    beside = (
        [(f"{name} before", text) for name, text in [("judged", _judged(before)), *_answered(before)]] if before else []
    )
    passages = [_passage(each) for each in case["passages"]]
    tone: Tone = "bad" if case["fault"] else "good"
    return Case(f"{case['id']}: {case['question']}", _judged(case), tone, parts, beside, passages)


def _answered(case: Facts) -> list[tuple[str, str]]:
    """Return the answer, and its citations with their verdicts."""
    citations = [
        (f"citation [{each['index']}], quote {each['verification']}", f"“{each['quote']}”\n{each['url']}")
        for each in case["citations"]
    ]
    return [("answer", case["answer"]), *citations]


def _passage(passage: Facts) -> tuple[str, str]:
    """Return a locked passage, with why it was used or not."""
    where = " › ".join(str(part) for part in passage.get("heading_path") or [passage.get("title", "")])
    scores = ", ".join(f"{name} {value:.3f}" for name, value in (passage.get("scores") or {}).items())
    told = "; ".join(filter(None, (passage.get("why"), scores)))
    return f"{_numbered(passage)} {where}: {told}", str(passage.get("text", ""))


def _numbered(passage: Facts) -> str:
    """The passage's place in the lock and the number it is cited by; older reports have the place as `index`."""
    if "passage" not in passage:
        return f"passage [{passage.get('index', '')}]"
    return f"passage {passage['passage']}" + (f" cited as [{passage['index']}]" if passage.get("index") else "")


def _judged(case: Facts) -> str:
    return str(case["fault"] or case["status"])
