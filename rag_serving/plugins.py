"""Plug-ins: packages of their own that join by entry points."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from rag_serving.escaping.redaction import ConfigError

HOOKS, ROUTES = "citelock.hooks", "citelock.routes"


@cache
def loaded(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name, in the order of their names; none of them is imported."""
    return {entry.name: entry for entry in sorted(entry_points(group=group), key=lambda entry: entry.name)}


def one(group: str, name: str, extra: str | None = None) -> Any:
    """Return a plug-in's object for a group (`citelock.stores`) under a name. `extra`: the extra that installs it, if
    it is not the group's own name (`stores`). Raises ConfigError: it is not installed."""
    entry = loaded(group).get(name)
    if entry is None:
        raise missing(name, extra or group.rpartition(".")[2])
    return entry.load()


def require(module: str, wanted_by: str) -> None:
    """Go on where a package is installed that comes with the extra of its name. Raises ConfigError: it is not."""
    if find_spec(module) is None:
        raise missing(wanted_by, module)


def missing(what: str, extra: str) -> ConfigError:
    """Return the error of something that needs a plug-in which is not installed."""
    return ConfigError(f"{what} needs citelock[{extra}]: pip install 'citelock[{extra}]'")
