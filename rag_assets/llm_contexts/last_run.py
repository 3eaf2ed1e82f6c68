"""What the last run left behind about its contexts: what it could not get, and how fast it was.

Belongs here: the file. Does not belong here: the run (`writer`), what is made of the figures (`build.summary`,
`estimate`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rag_assets.llm_contexts.tally import Usage
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
