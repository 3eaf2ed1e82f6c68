"""An evaluation as a report: figures, gates, and the worst questions first, beside those of another generation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evals.evaluation.compare import judgement
from evals.reports.report import Case, Figure, Report, Table, Tone, filled, words

Facts = Mapping[str, Any]


def evaluation_report(facts: Facts, before: Facts | None = None) -> Report:
    """Return the content of `eval_report.json` as a report; `before` is that of the generation it is compared with."""
    failed = [gate for gate in facts["gates"] if not gate["passed"]]
    before = before or {}
    cases_before = {case["id"]: case for case in before.get("cases", ())}
    summary, summary_before = facts["summary"], before.get("summary", {})
    cases = sorted(facts["cases"], key=lambda case: _rank(case, cases_before.get(case["id"])))
    gold = facts["gold"]
    about = facts["note"] or f"{gold['asked']} of {gold['questions']} questions asked"
    return Report(
        title=f"Evaluation of generation {facts['generation']}",
        about=f"{about}, {facts['created_at']}",
        figures=[
            Figure(
                "gates",
                f"{len(failed)} of {len(facts['gates'])} failed" if failed else f"all {len(facts['gates'])} passed",
                "bad" if failed else "good",
                f"overridden: {facts['override']}" if facts["override"] else "",
            ),
            *_figures(summary, summary_before),
        ],
        tables=filled(
            _changed(cases, cases_before),
            _gates(facts["gates"]),
            _measures(summary, summary_before),
            _questions(cases),
            _latency(facts["evaluation"] or {}, before.get("evaluation") or {}),
            Table.from_rows(
                "Gold entries that no longer stand in the pages", ({"entry": line} for line in facts["gold"]["stale"])
            ),
        ),
        cases=[_case(case, cases_before.get(case["id"])) for case in cases],
        cases_title="Questions, the worst first",
        facts={"compared with": facts["compared_with"] or "nothing", "seconds": f"{facts['seconds']:.1f}"},
    )


def measured(facts: Facts, before: Facts | None) -> dict[str, list[float]]:
    """Return the mean of each measure, with that of the other generation if there is one, for a plot."""
    means = {name: facts["summary"][name]["mean"] for name in key_first(facts["summary"])}
    if not before:
        return {words(name): [mean] for name, mean in means.items()}
    other = before.get("summary", {})
    return {words(name): [mean, other[name]["mean"]] for name, mean in means.items() if name in other}


def _rank(case: Facts, before: Facts | None) -> tuple[int, str]:
    """Return the sort key: newly wrong answers first, then wrong ones, then newly right ones, then the rest."""
    was_wrong = bool(before and before["fault"])
    if case["fault"]:
        return (1 if was_wrong or before is None else 0), case["id"]
    return (2 if was_wrong else 3), case["id"]


def _figures(summary: Mapping[str, Facts], before: Mapping[str, Facts]) -> list[Figure]:
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


def _measures(summary: Mapping[str, Facts], before: Mapping[str, Facts]) -> Table:
    rows = (
        {
            "measure": words(name),
            "mean": summary[name]["mean"],
            "95 % interval": "{low:.3f} … {high:.3f}".format_map(summary[name]) if "low" in summary[name] else "",
            "questions": summary[name].get("questions"),
            **({"before": before[name]["mean"]} if name in before else {}),
        }
        for name in key_first(summary)
    )
    return Table.from_rows("All measures", rows)


def _tone(measure: Facts, before: Facts | None) -> Tone:
    """Return whether a measure is better or worse than before by more than the interval of its mean."""
    if before is None or "low" not in measure:
        return "neutral"
    if before["mean"] > measure["high"]:
        return "bad"
    return "good" if before["mean"] < measure["low"] else "neutral"


def _note(measure: Facts, before: Facts | None) -> str:
    parts = [f"was {before['mean']:.3f}"] if before else []
    if "low" in measure:
        parts.append("{low:.3f}–{high:.3f} over {questions}".format_map(measure))
    return ", ".join(parts)


def _gates(gates: Sequence[Facts]) -> Table:
    rows = (
        {
            "gate": gate["gate"],
            "passed": gate["passed"],
            "found": gate["detail"],
            "questions": ", ".join(gate["questions"]),
        }
        for gate in sorted(gates, key=lambda gate: bool(gate["passed"]))
    )
    return Table.from_rows("Gates", rows)


def _changed(cases: Sequence[Facts], before: Mapping[str, Facts]) -> Table:
    rows = (
        {
            "id": case["id"],
            "question": case["question"],
            "now": judgement(case),
            "before": judgement(before[case["id"]]),
        }
        for case in cases
        if case["id"] in before and judgement(case) != judgement(before[case["id"]])
    )
    return Table.from_rows("Judged otherwise than before", rows)


def _questions(cases: Sequence[Facts]) -> Table:
    rows = (
        {
            "id": case["id"],
            "question": case["question"],
            "judged": judgement(case),
            "citations": len(case["citations"]),
            "tags": ", ".join(case["tags"]),
            "ms": case["timings_ms"].get("total"),
        }
        for case in cases
    )
    return Table.from_rows("Questions", rows)


def _latency(evaluation: Facts, before: Facts) -> Table:
    other = before.get("latency_ms", {})
    rows = (
        {
            "stage": stage,
            "p50 ms": times["p50"],
            "p95 ms": times["p95"],
            **({"p50 before": other.get(stage, {}).get("p50")} if other else {}),
        }
        for stage, times in evaluation.get("latency_ms", {}).items()
    )
    return Table.from_rows("Time of each stage", rows)


def _case(case: Facts, before: Facts | None) -> Case:
    parts = [("expected", case["expected"])] if case["expected"] else []
    parts += [("gold quote", quote) for quote in case["quotes"]]
    parts += _answered(case)
    earlier = [("judged", judgement(before)), *_answered(before)] if before else []
    return Case(
        title=f"{case['id']}: {case['question']}",
        status=judgement(case),
        tone="bad" if case["fault"] else "good",
        parts=parts,
        before=[(f"{name} before", text) for name, text in earlier],
        evidence=[_passage(passage) for passage in case["passages"]],
    )


def _answered(case: Facts) -> list[tuple[str, str]]:
    citations = [
        ("citation [{index}], quote {verification}".format_map(cited), "“{quote}”\n{url}".format_map(cited))
        for cited in case["citations"]
    ]
    return [("answer", case["answer"]), *citations]


def _passage(passage: Facts) -> tuple[str, str]:
    """Return a locked passage, with why it was used or not."""
    where = " › ".join(str(part) for part in passage.get("heading_path") or [passage.get("title", "")])
    scores = ", ".join(f"{name} {value:.3f}" for name, value in (passage.get("scores") or {}).items())
    reason = "; ".join(filter(None, (passage.get("why"), scores)))
    if "passage" in passage:  # its place in the lock, and the number that it is cited by
        name = f"passage {passage['passage']}" + (f" cited as [{passage['index']}]" if passage.get("index") else "")
    else:  # older reports have the place as `index`
        name = f"passage [{passage.get('index', '')}]"
    return f"{name} {where}: {reason}", str(passage.get("text", ""))


KEY: Mapping[str, str] = {
    "told_and_right": "told from a right page, of what has an answer",
    "told_and_wrong": "told with confidence, and wrong",
    "closest_and_useful": "a right page shown as the closest, of what has an answer",
    "declined_though_there": "no right page shown, of what has an answer",
    "citation_precision": "citations of a right page",
    "answerability": "answered, or declined, as it should be",
    "not_found_recall": "declined, of what has no answer",
    "not_found_precision": "rightly declined, of what is declined",
    "recall@10": "right pages among the first ten",
}
"""By name, with what each says in a few words."""


def key_first(names: Iterable[str]) -> list[str]:
    """Return names of measures, the key ones before the others."""
    known = list(names)
    return [name for name in KEY if name in known] + [name for name in known if name not in KEY]
