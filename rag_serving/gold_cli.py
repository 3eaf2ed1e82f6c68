"""`citelock gold`: arguments and printing.

Belongs here: the commands. Does not belong here: what they do (`gold_drafts`).
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_serving.auth import choose_tenant
from rag_serving.config import ConfigError, load_config

if TYPE_CHECKING:
    import pandas as pd

app = typer.Typer(help="Draft questions for gold sets.", no_args_is_help=True)

ConfigPath = Annotated[
    Path | None, typer.Option("--config", help="Configuration file; default config/app.yaml or CITELOCK_CONFIG.")
]
Tenant = Annotated[str | None, typer.Option("--tenant", help="The tenant; may be left out where there is only one.")]


@app.callback()
def options() -> None:
    """Draft questions for gold sets."""


@app.command("from-feedback")
def from_feedback(
    days: Annotated[int, typer.Option("--days", min=1, help="Look at the feedback of so many days.")] = 30,
    config: ConfigPath = None,
    tenant: Tenant = None,
) -> None:
    """Draft gold questions out of answers that readers found bad, as YAML for a person to complete and accept.

    Only questions whose text is kept (telemetry.store_questions) can be drafted.

    \b
    citelock gold from-feedback --days 7 > drafts.yaml
    """
    from rag_serving.gold_drafts import complaints, to_yaml
    from rag_serving.receipt_store import ReceiptStore
    from rag_serving.receipts import ReceiptError
    from rag_serving.store import Store
    from rag_serving.telemetry.log import rows_until
    from rag_serving.telemetry.tables import FEEDBACK, QUESTIONS, open_engine

    settings = load_config(config)
    try:
        name = choose_tenant(sorted(settings.tenants), tenant, "--tenant NAME")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    path, today = Store(settings.home).serving_db(), datetime.now(UTC).date()
    with closing(ReceiptStore(path)) as store:
        engine = open_engine(settings.telemetry.url, path)
        feedback, questions = [_rows(rows_until(engine, table, name, today, days)) for table in (FEEDBACK, QUESTIONS)]
        engine.dispose()
        receipts = {}
        for row in feedback:
            try:
                receipts[row["receipt_id"]] = store.get(row["receipt_id"], name)
            except ReceiptError:  # older than what is kept: the draft goes without what was cited
                continue
    drafted, without_text = complaints(feedback, questions, receipts)
    typer.echo(to_yaml(name, drafted), nl=False)
    if without_text:
        typer.echo(
            f"citelock: {without_text} more without their question's text; telemetry.store_questions keeps it", err=True
        )


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
