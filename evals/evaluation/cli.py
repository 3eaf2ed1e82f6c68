"""`citelock bench`, `evaluate` and `gold`: arguments and printing."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rag_serving.artifacts.store import Store, write_text
from rag_serving.cli.group import UsageError
from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import Config, ConfigError, load_config, load_or_default
from rag_serving.escaping.targets import for_json, for_terminal, for_terminal_line
from rag_serving.privacy import complain
from rag_serving.retrieval.hybrid import Mode

if TYPE_CHECKING:
    from evals.evaluation.bench import Bench
    from evals.evaluation.calibrate import Calibration
    from evals.evaluation.evaluate import GoldEvaluation
    from evals.evaluation.gold import GoldSet
    from evals.evaluation.gold_drafts import Ask
    from rag_serving.ask import Pipeline

_SECONDS_BETWEEN_LINES = 5.0
Layout = Literal["beir", "enterpriserag"]


def bench_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder in BEIR layout, or in that of --layout.")],
    config: ConfigPath = None,
    mode: Annotated[Mode, typer.Option("--mode", help="Which indexes answer.")] = "hybrid",
    split: Annotated[str, typer.Option("--split", help="Judgements of qrels/SPLIT.tsv.")] = "test",
    index: Annotated[
        Path | None, typer.Option("--index", help="Keep the index in this folder, and use again what it has.")
    ] = None,
    run_file: Annotated[
        Path | None, typer.Option("--run-file", help="Write the rankings as a TREC run; of enterpriserag the answers.")
    ] = None,
    layout: Annotated[
        Layout, typer.Option("--layout", help="What the folder is; enterpriserag is asked, too.")
    ] = "beir",
    as_json: AsJson = False,
) -> None:
    """Measure retrieval on any folder in BEIR layout, or answers on EnterpriseRAG-Bench, with the code that answers."""
    from evals.evaluation.beir import check_run_path, read_collection, write_run
    from evals.evaluation.bench import run_bench

    with _errors(), kept(index) as home:
        settings = load_or_default(config)
        if run_file:
            check_run_path(run_file)
        if layout == "enterpriserag":
            from evals.evaluation.enterpriserag import run_enterprise

            figures = run_enterprise(directory, home, settings, BenchProgress(), run_file)
            typer.echo(json.dumps(figures) if as_json else _by_kind(figures))
            return
        bench = run_bench(read_collection(directory, split), home, settings, mode, BenchProgress())
        if run_file:
            write_run(run_file, bench.run.rankings)
    typer.echo(json.dumps(bench.payload()) if as_json else _table(bench))


def _by_kind(figures: Mapping[str, Mapping[str, float | None]]) -> str:
    heads = ("kind", *next(iter(figures.values())))
    rows = [heads, ("---", *["---:"] * (len(heads) - 1))]
    rows += [
        (kind, *("" if value is None else f"{value:g}" for value in row.values())) for kind, row in figures.items()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


class BenchProgress:
    """Lines on standard error, at most one in five seconds for each kind of work."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._what = ""
        self._started = self._told = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        """`done` of `total` pieces of the work `what` are finished."""
        now = self._clock()
        if what != self._what:
            self._what, self._started, self._told = what, now, now
        if now - self._told < _SECONDS_BETWEEN_LINES:
            return
        self._told = now
        left = (now - self._started) / done * (total - done) if done else 0
        print(f"citelock: {done} of {total} {what}, about {left:.0f} s left", file=sys.stderr, flush=True)


def _table(bench: Bench) -> str:
    figures = bench.payload()
    lines = [f"{figures['queries']} queries, {figures['documents']} documents, {figures['mode']}"]
    for name, values in (("recall", figures["recall"]), ("nDCG", figures["ndcg"]), ("MRR", figures["mrr"])):
        lines += [f"{f'{name}@{k}':<12}{value:.4f}" for k, value in values.items()]
    for name, key in (("latency", "latency_ms"), ("  without embedding", "latency_without_embedding_ms")):
        lines.append(f"{name:<20}p50 {figures[key]['p50']:.1f} ms, p95 {figures[key]['p95']:.1f} ms")
    lines.append(f"indexed in {figures['index_seconds']:.1f} s")
    lines.append(f"embedded {figures['texts_embedded']} texts in {figures['embed_seconds']:.1f} s")
    return "\n".join(lines)


@contextmanager
def kept(index: Path | None) -> Iterator[Path]:
    """Yield the folder, or a temporary one."""
    if index is not None:
        yield index
        return
    with tempfile.TemporaryDirectory(prefix="citelock-bench-") as folder:
        yield Path(folder)


@contextmanager
def _errors() -> Iterator[None]:
    """Known errors in one line on standard error: 2 for the configuration, 1 for the rest."""
    from evals.evaluation.beir import BeirError
    from evals.evaluation.bench import BenchError
    from rag_assets.publishing.arrange import BuildError
    from rag_serving.artifacts.store import StoreError
    from rag_serving.indexes.chroma import DenseError
    from rag_serving.models import ModelError
    from rag_serving.retrieval.hybrid import RetrievalError

    try:
        yield
    except (
        BeirError,
        BenchError,
        BuildError,
        ConfigError,
        DenseError,
        ModelError,
        RetrievalError,
        StoreError,
    ) as error:
        complain(str(error))
        raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None


GOLD_FOLDER = Path("evals/gold")


def evaluate_command(
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


app = typer.Typer(help="Check gold sets, and draft questions for them.", no_args_is_help=True)


@app.callback()
def options() -> None:
    """Check gold sets, and draft questions for them."""


@app.command("check")
def check(config: ConfigPath = None, tenant: Tenant = None) -> None:
    """List the entries whose page, quote or anchor is gone, with the nearest text now.

    The pages are those of the last sync; exit code 1 if an entry is gone.
    """
    from evals.evaluation.gold import check_gold, find_gold, live_pages

    settings = load_config(config)
    name = chosen_tenant(settings, tenant)
    gold = find_gold(settings.evaluation.gold, name)
    pages = live_pages(Store(settings.home), settings, name)
    if not pages:
        raise ConfigError(f"no pages of tenant {name!r} are here to compare with; run `citelock build`")
    stale = check_gold(gold, pages)
    for each in stale:
        typer.echo(for_terminal_line(each.line()))
    typer.echo(f"{len(gold.questions) - len(stale)} of {len(gold.questions)} entries stand")
    if stale:
        raise typer.Exit(1)


@app.command("suggest")
def suggest_command(
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="So many drafts at most.")] = 20,
    config: ConfigPath = None,
    tenant: Tenant = None,
) -> None:
    """Draft gold questions out of statements in pages that everyone may read, for a person to accept or edit.

    The configured language model writes them, its quotes checked against the page; without one, templates do.

    \b
    citelock gold suggest -n 40 > drafts.yaml
    """
    from evals.evaluation.gold_drafts import suggest, suggestions_to_yaml
    from rag_serving.access.principals import EVERYONE
    from rag_serving.indexes.catalog import current_generation
    from rag_serving.indexes.generation import Generation

    settings = load_config(config)
    name, store = chosen_tenant(settings, tenant), Store(settings.home)
    with closing(Generation.open(store, name, current_generation(store, name), settings)) as generation:
        rows = [row for row in range(len(generation)) if generation.readers_of(row) == EVERYONE]
        drafts = suggest(generation.chunks(rows), count, _ask(settings))
    typer.echo(suggestions_to_yaml(name, drafts), nl=False)


@app.command("from-feedback")
def from_feedback(
    days: Annotated[int, typer.Option("--days", min=1, help="Look at the feedback of so many days.")] = 30,
    config: ConfigPath = None,
    tenant: Tenant = None,
) -> None:
    """Draft gold questions from answers that readers rated bad, as YAML for a person to complete and accept.

    Drafted are questions whose text is kept (telemetry.store_questions), and those that readers reported as missing:
    their receipts have the text.

    \b
    citelock gold from-feedback --days 7 > drafts.yaml
    """
    from evals.evaluation.gold_drafts import complaints, complaints_to_yaml
    from evals.evaluation.telemetry_rows import last_days, questions_of, records, rows_of_days
    from rag_serving.receipts.receipt import ReceiptError, Secrecy
    from rag_serving.receipts.store import open_receipts
    from rag_serving.telemetry.tables import FEEDBACK, opened

    settings = load_config(config)
    name = chosen_tenant(settings, tenant)
    path, today = Store(settings.home).serving_db(), datetime.now(UTC).date()
    secrecy = Secrecy(settings.home)
    with closing(open_receipts(settings)) as store, opened(settings.telemetry.url, path) as engine:
        feedback = records(rows_of_days(engine, FEEDBACK, name, last_days(days, today)))
        questions = records(questions_of(engine, name, [row["receipt_id"] for row in feedback]))
        receipts = {}
        for row in feedback:
            try:
                receipts[row["receipt_id"]] = secrecy.opened(store.get(row["receipt_id"], name))
            except ReceiptError:  # older than what is kept: the draft goes without what was cited
                continue
    drafted, without_text = complaints(feedback, questions, receipts)
    typer.echo(complaints_to_yaml(name, drafted), nl=False)
    if without_text:
        typer.echo(
            f"citelock: {without_text} more without their question's text; telemetry.store_questions keeps it", err=True
        )


def _ask(config: Config) -> Ask | None:
    if config.generation.provider == "extractive":
        return None
    from rag_serving.models.chat.messages import PromptMessage, open_chat

    chat = open_chat(config.generation.provider, config.generation, "generation")
    return lambda system, user: chat.reply([PromptMessage("system", system), PromptMessage("user", user)]).text
