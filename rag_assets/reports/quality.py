"""Quality over generations: key figures, how they went, any two side by side, what was not answered; for analysts.

Belongs here: evaluations and telemetry rows as a report; the history that outlives pruned generations. Does not belong
here: reading either, drawing plots, comparing (`rag_assets.evaluation.compare`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from rag_assets.evaluation.compare import Changed, CompareError, Comparison, Difference, compare, judgement
from rag_assets.reports.key_measures import KEY, key_first, words
from rag_assets.reports.report import Case, Cell, Figure, Pair, Plot, Report, Table, Tone
from rag_assets.reports.unanswered import unanswered_table

Facts = Mapping[str, Any]
Row = Mapping[str, Any]

VERSION = 1
"""Raised when the report of the same figures changes."""
COMPARED = 6
"""So many of the newest runs can be put side by side, each with each."""
REMEMBERED = 200
"""Lines of the history that are kept."""
_SHOWN = 12  # of which a plot tells the names
_SURE = 0.05


def history_of(evaluations: Mapping[str, Facts], published: Mapping[str, str], known: Sequence[Row]) -> list[Row]:
    """Return a line for each generation that was ever evaluated, the oldest first.

    `evaluations` are those on disk, `published` says when each generation was first published, `known` is what was
    returned the last time: of generations that were removed since.
    """
    rows = {str(row["generation"]): row for row in known}
    for generation, facts in evaluations.items():
        if facts.get("summary"):
            rows[generation] = {
                "generation": generation,
                "created_at": facts["created_at"],
                "questions": facts["gold"]["asked"],
                "failed": [gate["gate"] for gate in facts["gates"] if not gate["passed"]],
                "measures": {name: told["mean"] for name, told in facts["summary"].items()},
                "p50_ms": _p50(facts),
            }
    found: list[Row] = [{**row, "published": published.get(name)} for name, row in rows.items()]
    return sorted(found, key=lambda row: (row["published"] or row["created_at"], row["generation"]))[-REMEMBERED:]


def quality_report(
    tenant: str,
    current: str | None,
    history: Sequence[Row],
    runs: Mapping[str, Facts],
    questions: Sequence[Row],
    days: int,
    plots: Sequence[Plot] = (),
) -> Report:
    """Return the report of a tenant.

    `runs`: evaluations by the name they are chosen by, the oldest first; `questions`: rows of the telemetry table of
    the last `days` days.
    """
    return Report(
        title=f"Quality of {tenant}",
        about=_about(history, questions, days),
        figures=[*_figures(history, current), *_asked(questions, days)],
        tables=[
            unanswered_table(questions, f"Questions of the last {days} days without an answer"),
            *_trend(history, current),
        ],
        plots=plots,
        pairs=pairs_of(runs),
    )


def trend(history: Sequence[Row]) -> tuple[dict[str, list[float | None]], list[str]]:
    """Return the key measures of the newest generations, and the generations' names: what a plot shows."""
    shown = history[-_SHOWN:]
    names = [name for name in KEY if any(name in row["measures"] for row in shown)]
    values = {words(name): [row["measures"].get(name) for row in shown] for name in names}
    return values, [f"{row['generation'][:8]} {row['created_at'][5:10]}" for row in shown]


def pairs_of(runs: Mapping[str, Facts]) -> list[Pair]:
    """Return every two of the newest runs, the newest first; those that were not asked the same are left out."""
    newest = list(runs.items())[-COMPARED:]
    pairs = []
    for (before, first), (after, second) in combinations(newest, 2):
        try:
            pairs.append(_pair(before, after, compare(first, second), first, second))
        except CompareError:
            continue
    order = [name for name, _ in newest]
    return sorted(pairs, key=lambda pair: (-order.index(pair.after), -order.index(pair.before)))


def _pair(before: str, after: str, found: Comparison, first: Facts, second: Facts) -> Pair:
    cases_before, cases_after = ({str(case["id"]): case for case in run["cases"]} for run in (first, second))
    cases = [_case(each, cases_before[each.id], cases_after[each.id]) for each in found.changed]
    return Pair(before, after, [_differences(found, before, after), *_left_out(found)], cases)


def _differences(found: Comparison, before: str, after: str) -> Table:
    """Key measures first; better and worse only where chance would hardly make as large a difference."""
    by_name = {each.measure: each for each in found.differences}
    rows: list[Mapping[str, Cell]] = [
        {
            "measure": words(each.measure),
            "before": each.before,
            "after": each.after,
            "difference": each.difference,
            "95 % interval": f"{_short(each.low)} … {_short(each.high)}",
            "p": each.p,
            "questions": each.questions,
            "verdict": _verdict(each),
        }
        for each in (by_name[name] for name in key_first(by_name))
    ]
    note = (
        f"{found.questions} questions that both were asked. p: how likely chance alone makes a difference as large "
        f"(paired randomization test); from {_SURE} on it says nothing."
    )
    return Table(f"{after} beside {before}", list(rows[0]) if rows else ["measure"], rows, note)


def _verdict(each: Difference) -> str:
    if each.p >= _SURE or not each.difference:
        return "no difference"
    less_is_better = each.measure == "total_ms"
    return "better" if (each.difference > 0) != less_is_better else "worse"


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.0f}"


def _left_out(found: Comparison) -> list[Table]:
    rows: list[Mapping[str, Cell]] = [
        *({"question": key, "asked of": "the first alone"} for key in found.only_before),
        *({"question": key, "asked of": "the second alone"} for key in found.only_after),
    ]
    return [Table("Questions that only one was asked", ["question", "asked of"], rows)] if rows else []


def _case(each: Changed, before: Facts, after: Facts) -> Case:
    tone: Tone = "bad" if each.change == "now wrong" else "good" if each.change == "now right" else "neutral"
    return Case(f"{each.id}: {each.question}", each.change, tone, _answer(before, "before"), _answer(after, "after"))


def _answer(case: Facts, name: str) -> list[tuple[str, str]]:
    citations = [(f"citation {name}", f"“{each['quote']}”\n{each['url']}") for each in case.get("citations", ())]
    answer = str(case.get("answer", ""))
    return [(f"judged {name}", judgement(case)), (f"answer {name}", answer), *citations]


def _figures(history: Sequence[Row], current: str | None) -> list[Figure]:
    """Return the key measures of the published generation, beside those of the one that was published before."""
    published = [row for row in history if row["published"]]
    now = next((row for row in published if row["generation"] == current), None)
    if now is None:
        return []
    earlier = [row for row in published if row is not now and row["published"] <= now["published"]]
    before = earlier[-1]["measures"] if earlier else {}
    figures = [
        Figure(words(name), f"{now['measures'][name]:.3f}", note=_was(note, before.get(name)))
        for name, note in KEY.items()
        if name in now["measures"]
    ]
    gates = f"failed: {', '.join(now['failed'])}" if now["failed"] else "passed"
    return [*figures, Figure("gates", gates, "bad" if now["failed"] else "good", f"generation {now['generation']}")]


def _was(note: str, before: float | None) -> str:
    return note if before is None else f"{note}; was {before:.3f}"


def _asked(questions: Sequence[Row], days: int) -> list[Figure]:
    """Return what became of the questions of the last days."""
    asked = [row for row in questions if row["kind"] == "ask"]
    if not asked:
        return []
    answered = sum(row["status"] == "answered" for row in asked)
    note = f"{answered:,} of {len(asked):,} questions in {days} days"
    return [Figure("answered", f"{100 * answered / len(asked):.0f} %", note=note)]


def _trend(history: Sequence[Row], current: str | None) -> list[Table]:
    """Return a line for each generation, the newest first."""
    if not history:
        return []
    names = key_first(sorted({name for row in history for name in row["measures"]}))
    rows: list[Mapping[str, Cell]] = [
        {
            "generation": row["generation"],
            "state": _state(row, current),
            "evaluated": row["created_at"][:16].replace("T", " "),
            **{words(name): row["measures"].get(name) for name in names},
            "p50 ms": row["p50_ms"],
            "gates": f"failed: {', '.join(row['failed'])}" if row["failed"] else "passed",
            "questions": row["questions"],
        }
        for row in reversed(history)
    ]
    return [Table("Generations", list(rows[0]), rows)]


def _state(row: Row, current: str | None) -> str:
    if row["generation"] == current:
        return "published"
    return "was published" if row["published"] else "candidate"


def _p50(facts: Facts) -> float | None:
    latency = (facts.get("evaluation") or {}).get("latency_ms", {})
    value = latency.get("total", {}).get("p50")
    return None if value is None else float(value)


def _about(history: Sequence[Row], questions: Sequence[Row], days: int) -> str:
    if not history:
        return "no generation was evaluated: there is no gold set"
    evaluated = f"{len(history)} generation{'' if len(history) == 1 else 's'} evaluated"
    return f"{evaluated}; {len(questions)} questions and searches in {days} days"
