"""What plug-ins bring: packages of their own that join by entry points.

Belongs here: finding it. Does not belong here: what a group of entry points is for (whoever names the group).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any


@cache
def loaded(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name, in the order of their names; none of them is imported."""
    return {entry.name: entry for entry in sorted(entry_points(group=group), key=lambda entry: entry.name)}


def one(group: str, name: str, extra: str | None = None) -> Any:
    """Return what a plug-in brings to a group (`citelock.stores`) under a name.

    `extra`: the extra that installs it, where it is not the group's own name (`stores`).

    Raises:
        ConfigError: it is not installed.
    """
    entry = loaded(group).get(name)
    if entry is None:
        from rag_serving.config.loading import ConfigError  # takes a second, which `citelock --help` has not

        extra = extra or group.rpartition(".")[2]
        raise ConfigError(f"{name} needs citelock[{extra}]: pip install 'citelock[{extra}]'")
    return entry.load()
