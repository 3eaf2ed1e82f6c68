"""Quality over generations: key figures, how they went, any two side by side, what was not answered; for analysts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from evals.evaluation.compare import Changed, CompareError, Difference, RunComparison, compare, judgement
from evals.reports.evaluation import KEY, key_first
from evals.reports.report import Case, Cell, Figure, Pair, Report, Table, Tone, filled, words
from evals.reports.telemetry import outcome_of, unanswered_table
from rag_serving.records.answers import Outcome

Facts = Mapping[str, Any]
Row = Mapping[str, Any]

VERSION = 1
"""Raised when the report of the same figures changes."""
DAYS = 30
"""So many days of questions are looked at."""
COMPARED = 6
"""So many of the newest runs can be put side by side, each with each."""
REMEMBERED = 200
"""Lines of the history that are kept."""
_SHOWN = 12  # generations in a plot
_SURE = 0.05


def history_of(evaluations: Mapping[str, Facts], published: Mapping[str, str], known: Sequence[Row]) -> list[Row]:
    """Return a line for each generation that was ever evaluated, the oldest first.

    `evaluations` are those on disk, `published` has the time of each generation's first publication, `known` is the
    last result: for generations removed since.
    """
    rows = {str(row["generation"]): row for row in known}
    for generation, facts in evaluations.items():
        if facts.get("summary"):
            latency = (facts.get("evaluation") or {}).get("latency_ms", {})
            value = latency.get("total", {}).get("p50")
            rows[generation] = {
                "generation": generation,
                "created_at": facts["created_at"],
                "questions": facts["gold"]["asked"],
                "failed": [gate["gate"] for gate in facts["gates"] if not gate["passed"]],
                "measures": {name: measure["mean"] for name, measure in facts["summary"].items()},
                "p50_ms": None if value is None else float(value),
            }
    dated: list[Row] = [{**row, "published": published.get(name)} for name, row in rows.items()]
    return sorted(dated, key=lambda row: (row["published"] or row["created_at"], row["generation"]))[-REMEMBERED:]


def quality_report(
    tenant: str, current: str | None, history: Sequence[Row], runs: Mapping[str, Facts], questions: Sequence[Row]
) -> Report:
    """Return the report of a tenant.

    `runs`: evaluations by the name they are chosen by, the oldest first; `questions`: rows of the telemetry table of
    the last DAYS days.
    """
    about = "no generation was evaluated: there is no gold set"
    if history:
        evaluated = f"{len(history)} generation{'' if len(history) == 1 else 's'} evaluated"
        about = f"{evaluated}; {len(questions)} questions and searches in {DAYS} days"
    return Report(
        title=f"Quality of {tenant}",
        about=about,
        figures=[*_figures(history, current), *_asked(questions)],
        tables=[
            unanswered_table(questions, f"Questions of the last {DAYS} days without an answer"),
            *filled(_trend(history, current)),
        ],
        pairs=pairs_of(runs),
    )


def trend(history: Sequence[Row]) -> tuple[dict[str, list[float | None]], list[str]]:
    """Return the key measures of the newest generations, and the generations' names, for a plot."""
    shown = history[-_SHOWN:]
    names = [name for name in KEY if any(name in row["measures"] for row in shown)]
    values = {words(name): [row["measures"].get(name) for row in shown] for name in names}
    return values, [f"{row['generation'][:8]} {row['created_at'][5:10]}" for row in shown]


def pairs_of(runs: Mapping[str, Facts]) -> list[Pair]:
    """Return every two of the newest runs, the newest first; those with different questions are left out."""
    newest = list(runs.items())[-COMPARED:]
    pairs = []
    for (before, first), (after, second) in combinations(newest, 2):
        try:
            pairs.append(_pair(before, after, compare(first, second), first, second))
        except CompareError:
            continue
    order = [name for name, _ in newest]
    return sorted(pairs, key=lambda pair: (-order.index(pair.after), -order.index(pair.before)))


def _pair(before: str, after: str, comparison: RunComparison, first: Facts, second: Facts) -> Pair:
    cases_before, cases_after = ({str(case["id"]): case for case in run["cases"]} for run in (first, second))
    cases = [_case(changed, cases_before[changed.id], cases_after[changed.id]) for changed in comparison.changed]
    by_name = {measured.measure: measured for measured in comparison.differences}
    rows: Iterable[Mapping[str, Cell]] = (
        {
            "measure": words(measured.measure),
            "before": measured.before,
            "after": measured.after,
            "difference": measured.difference,
            "95 % interval": f"{_short(measured.low)} … {_short(measured.high)}",
            "p": measured.p,
            "questions": measured.questions,
            "verdict": _verdict(measured),
        }
        for measured in map(by_name.__getitem__, key_first(by_name))
    )
    note = (
        f"{comparison.questions} questions that both were asked. p: how likely chance alone makes a difference as "
        f"large (paired randomization test); from {_SURE} on it says nothing."
    )
    differences = Table.from_rows(f"{after} beside {before}", rows, note)
    return Pair(before, after, [differences, *filled(_left_out(comparison))], cases)


def _verdict(measured: Difference) -> str:
    if measured.p >= _SURE or not measured.difference:
        return "no difference"
    less_is_better = measured.measure == "total_ms"
    return "better" if (measured.difference > 0) != less_is_better else "worse"


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.0f}"


def _left_out(comparison: RunComparison) -> Table:
    asked_of = {
        **dict.fromkeys(comparison.only_before, "the first alone"),
        **dict.fromkeys(comparison.only_after, "the second alone"),
    }
    rows = ({"question": question, "asked of": which} for question, which in asked_of.items())
    return Table.from_rows("Questions that only one was asked", rows)


def _case(changed: Changed, before: Facts, after: Facts) -> Case:
    tones: Mapping[str, Tone] = {"now wrong": "bad", "now right": "good"}
    title, tone = f"{changed.id}: {changed.question}", tones.get(changed.change, "neutral")
    return Case(title, changed.change, tone, _answer(before, "before"), _answer(after, "after"))


def _answer(case: Facts, name: str) -> list[tuple[str, str]]:
    citations = [(f"citation {name}", "“{quote}”\n{url}".format_map(cited)) for cited in case.get("citations", ())]
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
        Figure(
            words(name),
            f"{now['measures'][name]:.3f}",
            note=f"{note}; was {before[name]:.3f}" if name in before else note,
        )
        for name, note in KEY.items()
        if name in now["measures"]
    ]
    return [
        *figures,
        Figure("gates", _gates(now), "bad" if now["failed"] else "good", f"generation {now['generation']}"),
    ]


def _asked(questions: Sequence[Row]) -> list[Figure]:
    asked = [row for row in questions if row["kind"] == "ask"]
    if not asked:
        return []
    counts = Counter(map(outcome_of, asked))
    shown: Mapping[str, Outcome] = {"answered": "told", "closest shown": "closest"}
    of_sets = [row for row in asked if "set" in row.get("timings_ms", {})]
    taken, note = sum(row["generator"] == "set" for row in of_sets), "questions in words of a set; others as usual"
    sets = [Figure("answered by a whole set", f"{taken:,}", note=f"of {len(of_sets):,} {note}")] if of_sets else []
    return sets + [
        Figure(
            name,
            f"{100 * counts[outcome] / len(asked):.0f} %",
            note=f"{counts[outcome]:,} of {len(asked):,} questions in {DAYS} days",
        )
        for name, outcome in shown.items()
    ]


def _trend(history: Sequence[Row], current: str | None) -> Table:
    names = key_first(sorted({name for row in history for name in row["measures"]}))
    rows = (
        {
            "generation": row["generation"],
            "state": "published"
            if row["generation"] == current
            else "was published"
            if row["published"]
            else "candidate",
            "evaluated": row["created_at"][:16].replace("T", " "),
            **{words(name): row["measures"].get(name) for name in names},
            "p50 ms": row["p50_ms"],
            "gates": _gates(row),
            "questions": row["questions"],
        }
        for row in reversed(history)
    )
    return Table.from_rows("Generations", rows)


def _gates(row: Row) -> str:
    return f"failed: {', '.join(row['failed'])}" if row["failed"] else "passed"
