"""What the last run left behind about its contexts: what it could not get, how fast it was, and the event of failures.

Belongs here: the file, the event and when it is due. Does not belong here: the run (`writer`), delivery
(`rag_assets.monitoring.alerts`), what is made of the figures (`build.summary`, `estimate`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rag_assets.llm_contexts.writer import Usage
from rag_assets.monitoring.watching import ERROR_CHARS, is_nth_alert
from rag_serving.artifacts.store import Store, StoreError, read_json, write_json

FILE = "contexts.json"
MEASURED = 20
"""Contexts that a run has to write for its pace to be a measure."""


class LastRun(BaseModel):
    """How many chunks have no context of the model, the most frequent reason, and the pace by model.

    `failed_runs`: how many runs in a row left such chunks.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    failures: int = 0
    reason: str = ""
    failed_runs: int = 0
    contexts_per_second: dict[str, float] = {}


def note_run(store: Store, tenant: str, failures: Mapping[str, str], tally: Usage | None = None) -> LastRun:
    """Keep what the next build needs to know; `failures` are reasons by chunk id."""
    reason = Counter(failures.values()).most_common(1)[0][0] if failures else ""
    before = read_last_run(store, tenant)
    paces, failed_runs = dict(before.contexts_per_second), before.failed_runs + 1 if failures else 0
    if tally and tally.done >= MEASURED:
        paces[tally.written_by.most_common(1)[0][0]] = round(tally.done / tally.seconds, 3)
    run = LastRun(failures=len(failures), reason=reason, failed_runs=failed_runs, contexts_per_second=paces)
    write_json(store.tenant(tenant) / FILE, run.model_dump())
    return run


def read_last_run(store: Store, tenant: str) -> LastRun:
    """Return what the last build noted; nothing where it cannot be read."""
    try:
        noted: Any = read_json(store.tenant(tenant) / FILE)
        return LastRun.model_validate(noted)
    except (StoreError, ValidationError):
        return LastRun()


def has_failures(store: Store, tenant: str) -> bool:
    """Return whether the last build left chunks without a context of the model."""
    return bool(read_last_run(store, tenant).failures)


REASONS = 3
CHUNKS = 20
"""Chunks that an event names; the asset's page and `contexts.parquet` have the reasons of all."""


def contexts_event(
    tenant: str, failures: Mapping[str, str], before: LastRun, after: LastRun, now: datetime
) -> dict[str, Any] | None:
    """Return what to tell of a run, or None where there is nothing new.

    Told are the first run that left chunks without a context, the second, the fourth, the eighth … in a row, and the
    one after which none is left.

    Args:
        tenant: whose contexts they are.
        failures: by chunk id why there is no context of the model.
        before: what the run before left.
        after: what this run leaves.
        now: for the event.
    """
    head = {"time": now.astimezone(UTC).isoformat(timespec="seconds"), "tenant": tenant}
    if not failures:
        text = f"contexts of {tenant} are written again: every chunk has one"
        return {"event": "contexts_written_again", "text": text, **head} if before.failures else None
    if not is_nth_alert(after.failed_runs):
        return None
    times = f", {after.failed_runs} builds in a row" if after.failed_runs > 1 else ""
    reason = after.reason if len(after.reason) <= ERROR_CHARS else f"{after.reason[: ERROR_CHARS - 1]}…"
    return {
        "event": "contexts_failed",
        "text": f"contexts of {tenant}: {len(failures)} chunks have none of the model{times}: {reason}; "
        "`citelock build --retry-contexts` asks again",
        **head,
        "contexts_failed": len(failures),
        "failures_in_a_row": after.failed_runs,
        "reasons": {why[:ERROR_CHARS]: count for why, count in Counter(failures.values()).most_common(REASONS)},
        "chunks": sorted(failures)[:CHUNKS],
    }
