"""`citelock evaluate`: arguments and printing.

Belongs here: the command. Does not belong here: what it measures (`evaluate`), choosing thresholds (`calibrate`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_serving.commands import UsageError
from rag_serving.config import ConfigError, load_config

if TYPE_CHECKING:
    from rag_serving.evaluate import Evaluation
    from rag_serving.gold import GoldSet

GOLD_FOLDER = Path("evals/gold")


def command(
    gold: Annotated[
        Path | None, typer.Argument(metavar="[GOLD]", help="Gold set; default: those of the tenant in evals/gold.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="Configuration file; default config/app.yaml or CITELOCK_CONFIG.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="The tenant; may be left out where there is only one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask the questions of a gold set and measure the answers.

    \b
    citelock evaluate
    citelock evaluate evals/gold/sample.yaml --json | jq .failed
    """
    from rag_serving.bench_cli import Progress
    from rag_serving.evaluate import evaluate
    from rag_serving.pipeline import Pipeline

    settings = load_config(config)
    questions, name = _gold(gold, tenant, sorted(settings.tenants))
    pipeline = Pipeline.open(settings, name)
    try:
        measured = evaluate(pipeline, questions, Progress())
    finally:
        pipeline.close()
    typer.echo(json.dumps(measured.payload(), ensure_ascii=False) if as_json else _told(measured))


def _gold(path: Path | None, tenant: str | None, tenants: list[str]) -> tuple[GoldSet, str]:
    """The questions, and the tenant that is asked: the option's, else the gold set's, else the only one."""
    from rag_serving.auth import choose_tenant
    from rag_serving.gold import find_gold, read_gold

    found = read_gold(path) if path else None
    try:
        name = choose_tenant(tenants, tenant or (found.tenant if found else None), "--tenant NAME")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if found and found.tenant not in (None, name):
        raise UsageError(f"{path} is of tenant {found.tenant!r}, not of {name!r}")
    return found or find_gold(GOLD_FOLDER, name), name


def _told(measured: Evaluation) -> str:
    found = measured.payload()
    ability: dict[str, Any] = found["answerability"]
    lines = [f"{found['questions']} questions, {found['answered']} answered"]
    figures = {
        "citation precision": found["citation_precision"],
        "sentence precision": found["sentence_precision"],
        "answerability": ability["accuracy"],
        "“not found” precision": ability["precision"],
        "“not found” recall": ability["recall"],
        "anchors that exist": found["anchor_validity"],
    }
    lines += [f"{name:<24}{'-' if value is None else f'{value:.4f}'}" for name, value in figures.items()]
    total = found["latency_ms"].get("total")
    if total:
        lines.append(f"{'latency':<24}p50 {total['p50']:.1f} ms, p95 {total['p95']:.1f} ms")
    lines += [f"  {each['id']}: {each['fault']}: {each['question']}" for each in found["failed"]]
    return "\n".join(lines)
