"""`citelock feedback`: arguments and printing."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from rag_serving.access.principals import Principal
from rag_serving.api.history import citation_fault
from rag_serving.cli.group import UsageError
from rag_serving.cli.options import ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import ConfigError, load_config
from rag_serving.receipts.store import open_receipts
from rag_serving.telemetry.events import MAX_COMMENT_CHARS, FeedbackVerdict
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.telemetry import open_telemetry


def command(
    receipt: Annotated[str, typer.Argument(metavar="RECEIPT_ID", help="The answer's receipt_id.")],
    verdict: Annotated[FeedbackVerdict, typer.Argument(help="What the answer was.")],
    citation: Annotated[int | None, typer.Option("--citation", min=1, help="The number of the citation meant.")] = None,
    comment: Annotated[str | None, typer.Option("--comment", help="In the reader's own words.")] = None,
    config: ConfigPath = None,
    tenant: Tenant = None,
    user: Annotated[str | None, typer.Option("--user", help="Who says so; only a keyed hash is kept.")] = None,
) -> None:
    """Rate an answer: helpful, not_helpful, wrong_citation, or missing, if the pages have the answer.

    \b
    citelock feedback 1f0c… helpful
    citelock feedback 1f0c… wrong_citation --citation 2 --comment "that page is about another product"
    """
    settings = load_config(config)
    name = chosen_tenant(settings, tenant)
    if comment and len(comment) > MAX_COMMENT_CHARS:
        raise UsageError(f"the comment has {len(comment)} characters, at most {MAX_COMMENT_CHARS} are kept")
    with closing(open_receipts(settings)) as receipts:
        fault = citation_fault(receipts.get(receipt, name), citation)
    if fault:
        raise UsageError(fault)
    telemetry = open_telemetry(settings, name)
    if telemetry is None:
        raise ConfigError("feedback is not kept: telemetry.enabled is false")
    telemetry.judged(Principal(name, user), receipt, verdict, citation, comment)
    telemetry.close()
    if not telemetry.counts().recorded:
        raise TelemetryError("the verdict was not kept: the telemetry database is away")
    typer.echo("Thank you: kept.")
