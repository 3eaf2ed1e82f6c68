"""`citelock evaluate`: arguments and printing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_serving.artifacts.store import Store, write_text
from rag_serving.cli.group import UsageError
from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import Config, load_config, load_or_default
from rag_serving.escaping.targets import for_json, for_terminal, for_terminal_line

if TYPE_CHECKING:
    from evals.evaluation.calibrate import Calibration
    from evals.evaluation.evaluate import GoldEvaluation
    from evals.evaluation.gold import GoldSet
    from rag_serving.ask import Pipeline

GOLD_FOLDER = Path("evals/gold")


def command(
    gold: Annotated[
        Path | None,
        typer.Argument(
            metavar="[GOLD]",
            help="Gold set, SQuAD 2.0 file, or SciFact folder; default: the tenant's sets in evals/gold.",
        ),
    ] = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Learn confidence and gates from half of the questions, test on the rest."),
    ] = False,
    write: Annotated[
        Path | None, typer.Option("--write", help="With --calibrate: put what was learnt into this configuration.")
    ] = None,
    index: Annotated[
        Path | None, typer.Option("--index", help="Keep a collection's index in this folder, and use what it has.")
    ] = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Ask with each stage on and off; prints CSV, or JSON with --json.")
    ] = False,
    every: Annotated[int, typer.Option("--every", min=1, help="Ask only every n-th question.")] = 1,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write a row for each question to this file.")
    ] = None,
    save: Annotated[
        str | None,
        typer.Option("--save", metavar="NAME", help="Keep the run; the tenant's quality report puts it beside others."),
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--compare",
            metavar="BEFORE AFTER",
            help="Ask nothing: compare two files of `evaluate --json`, or two `eval_report.json`.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask the questions of a gold set and measure the answers.

    \b
    citelock evaluate
    citelock evaluate evals/gold/sample.yaml --json | jq .failed
    citelock evaluate --csv answers.csv --json > before.json
    citelock evaluate --compare before.json after.json
    citelock evaluate --ablate > ablation.csv
    citelock evaluate squad2/dev.json --calibrate --write config/app.yaml
    """
    from evals.evaluation.calibrate import calibrate as calibrated
    from evals.evaluation.calibrate import open_gates, write_calibration
    from evals.evaluation.cli.bench import BenchProgress
    from evals.evaluation.compare import save_run
    from evals.evaluation.evaluate import evaluate
    from evals.evaluation.measures import cases_csv, exported

    if write and not calibrate:
        raise UsageError("--write needs --calibrate")
    if (csv or save is not None) and (calibrate or ablate or compare):
        raise UsageError("--csv and --save go with a plain evaluation, not with --calibrate, --ablate or --compare")
    if save is not None:
        _check_saving(save, gold)
    if compare:
        _compared(*compare, as_json)
        return
    if ablate:
        _ablated(gold, config, tenant, as_json)
        return
    with _asked(gold, config, tenant, index, open_gates if calibrate else lambda same: same) as (pipeline, questions):
        questions = replace(questions, questions=questions.questions[::every])
        pipeline.warm()  # what opening takes is in no question's time
        measured = evaluate(pipeline, questions, BenchProgress())
        wanted = csv or save is not None or (as_json and not calibrate)
        payload = exported(measured, questions, pipeline) if wanted else {}
    if csv:
        write_text(csv, cases_csv(payload))
    if save is not None:
        save_run(Store(pipeline.config.home), pipeline.tenant, save, payload)
    if not calibrate:
        typer.echo(for_json(payload) if as_json else _told(measured))
        return
    calibration = calibrated(questions, measured)
    if write:
        write_calibration(write, calibration, pipeline.config.embedding)
    typer.echo(for_json(calibration.payload()) if as_json else _calibration(calibration))


def _check_saving(name: str, gold: Path | None) -> None:
    """Refuse a run that cannot be stored, before any question."""
    from evals.evaluation.compare import RunNameError, run_path
    from evals.evaluation.gold_collections import is_collection

    if gold and is_collection(gold):
        raise UsageError("--save keeps runs of a tenant's gold set, and a collection is of no tenant")
    try:
        run_path(Store(Path()), "any", name)
    except RunNameError as error:
        raise UsageError(f"--save {error}") from None


def _compared(before: Path, after: Path, as_json: bool) -> None:
    from evals.evaluation.compare import compare, lines_of, read_run

    comparison = compare(read_run(before), read_run(after))
    typer.echo(for_json(comparison.payload()) if as_json else for_terminal("\n".join(lines_of(comparison))))


def _ablated(path: Path | None, config: Path | None, tenant: str | None, as_json: bool) -> None:
    from evals.evaluation.ablation import ablate_answers
    from evals.evaluation.cli.bench import BenchProgress
    from evals.evaluation.gold_collections import is_collection
    from evals.evaluation.metrics import to_csv

    if path and is_collection(path):
        raise UsageError("--ablate is for a tenant's gold set; `make ablation` takes collections")
    settings = load_config(config)
    questions, name = _gold(path, tenant, settings)
    rows = ablate_answers(settings, name, questions, BenchProgress())
    typer.echo(json.dumps(rows) if as_json else to_csv(rows), nl=as_json)


@contextmanager
def _asked(
    path: Path | None, config: Path | None, tenant: str | None, index: Path | None, change: Callable[[Config], Config]
) -> Iterator[tuple[Pipeline, GoldSet]]:
    """Yield the questions, and their pipeline: a tenant's, or a collection's own."""
    from evals.evaluation.cli.bench import kept
    from evals.evaluation.gold_collections import is_collection, published, read_gold_collection
    from rag_serving.ask import Pipeline

    if path and is_collection(path):
        collection = read_gold_collection(path)
        with kept(index) as home, published(collection, home, change(load_or_default(config))) as pipeline:
            yield pipeline, collection.gold
        return
    settings = load_config(config)
    questions, name = _gold(path, tenant, settings)
    pipeline = Pipeline.open(change(settings.of_tenant(name)), name)
    try:
        yield pipeline, questions
    finally:
        pipeline.close()


def _gold(path: Path | None, tenant: str | None, settings: Config) -> tuple[GoldSet, str]:
    """Return the questions, and their tenant: the option's, else the gold set's, else the only one."""
    from evals.evaluation.gold import find_gold, read_gold

    named = read_gold(path) if path else None
    name = chosen_tenant(settings, tenant or (named.tenant if named else None))
    if named and named.tenant not in (None, name):
        raise UsageError(f"{path} is of tenant {named.tenant!r}, not of {name!r}")
    return named or find_gold(GOLD_FOLDER, name), name


def _told(measured: GoldEvaluation) -> str:
    failed = measured.payload()["failed"]
    lines = [f"  {case['id']}: {case['fault']}: {for_terminal_line(case['question'])}" for case in failed]
    return "\n".join([*_figures(measured), *lines])


def _calibration(calibration: Calibration) -> str:
    from evals.evaluation.calibrate import COSTS

    gates = [f"  {name}: {value}" for name, value in calibration.gates.items()]
    learnt = calibration.confidence
    source = "by the package's weights" if learnt.strength is None else f"learnt from {len(learnt.unseen)} answers"
    rest = f"On the questions that they were not chosen by, at a cost of {calibration.cost:.3f} a question:"
    costs = ", ".join(f"{name.replace('_', ' ')} {cost:g}" for name, cost in vars(COSTS).items())
    lines = ["gates:", *gates, f"confidence: {source}", f"costs of errors: {costs}", rest]
    return "\n".join([*lines, *_figures(calibration.measured), *_clarity(calibration)])


def _clarity(calibration: Calibration) -> list[str]:
    """Return the number of questions that only name a topic, and the gain from asking back; nothing without any."""
    if calibration.clear is None or not calibration.clear.named:
        return []
    told = calibration.clear.payload()
    line = f"  {told['named']} only name something, {told['asked_back']} of them asked back"
    offered = told["offers_the_right_page"]
    return [line + (f", {offered:.0%} with the right page among the first two" if offered is not None else "")]


def _figures(measured: GoldEvaluation) -> list[str]:
    payload = measured.payload()
    ability: dict[str, Any] = payload["answerability"]
    closest = payload["closest"]
    figures = {
        "citation precision": payload["citation_precision"],
        "sentence precision": payload["sentence_precision"],
        "answerability": ability["accuracy"],
        "“not found” precision": ability["precision"],
        "“not found” recall": ability["recall"],
        "anchors that exist": payload["anchor_validity"],
        "citations of the closest": closest["citation_precision"],
    }
    lines = [
        f"{payload['questions']} questions, {payload['answered']} answered, {closest['shown']} shown the closest, "
        f"{closest['answerable']} of which have an answer"
    ]
    lines += [f"{name:<26}{'-' if value is None else f'{value:.4f}'}" for name, value in figures.items()]
    if total := payload["latency_ms"].get("total"):
        lines.append(f"{'latency':<26}p50 {total['p50']:.1f} ms, p95 {total['p95']:.1f} ms")
    return lines
