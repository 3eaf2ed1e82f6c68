"""Evaluations that were kept under a name, beside those of generations.

Belongs here: where they lie, reading and writing them. Does not belong here: their shape (`export`), comparing them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.evaluation.compare import is_run
from rag_serving.artifacts.store import Store, StoreError, read_json, write_json

FOLDER = "evaluations"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


class RunNameError(ValueError):
    """A name cannot be that of a file; the message says which can."""


def save_run(store: Store, tenant: str, name: str, run: Mapping[str, Any]) -> Path:
    """Keep an evaluation under a name, in place of one that had it; return its file.

    Raises:
        RunNameError: the name has other characters than letters, digits, `.`, `_` and `-`.
    """
    path = run_path(store, tenant, name)
    write_json(path, dict(run))
    return path


def run_path(store: Store, tenant: str, name: str) -> Path:
    """Return where the evaluation of a name lies.

    Raises:
        RunNameError: see `save_run`.
    """
    if not _NAME.fullmatch(name):
        raise RunNameError(f"{name!r} cannot be a name: letters, digits, '.', '_' and '-', 61 at most")
    return store.tenant(tenant) / FOLDER / f"{name}.json"


def saved_runs(store: Store, tenant: str) -> dict[str, dict[str, Any]]:
    """Return the evaluations that were kept, by name, the oldest first; what is none is left out."""
    found = {}
    for path in (store.tenant(tenant) / FOLDER).glob("*.json"):
        try:
            content = read_json(path)
        except (StoreError, OSError):
            continue
        if is_run(content):
            found[path.stem] = dict(content)
    return dict(sorted(found.items(), key=lambda pair: (str(pair[1].get("created_at", "")), pair[0])))
