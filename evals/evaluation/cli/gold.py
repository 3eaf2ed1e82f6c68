"""`citelock gold`: arguments and printing."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from rag_serving.cli.options import ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import Config, ConfigError, load_config
from rag_serving.escaping.targets import for_terminal_line

if TYPE_CHECKING:
    from evals.evaluation.gold_drafts import Ask

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
    from rag_serving.artifacts.store import Store

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
    from rag_serving.artifacts.store import Store
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
    from rag_serving.artifacts.store import Store
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
