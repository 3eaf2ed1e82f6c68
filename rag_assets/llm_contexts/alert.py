"""What is told of contexts that fail: the event, and when it is due.

Belongs here: the event. Does not belong here: delivery (`rag_assets.monitoring.alerts`), what failed (`writer`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rag_assets.llm_contexts.last_run import LastRun
from rag_assets.monitoring.watching import ERROR_CHARS, is_nth_alert

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
