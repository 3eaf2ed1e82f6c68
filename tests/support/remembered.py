"""What builds do again and again with the same outcome, done once in a process of tests.

Belongs here: reading Dagster's migrations for each instance that is forgotten afterwards, pictures of the same numbers.
Does not belong here: anything of the product that a test is about; folders (`shared`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps

from alembic.script import ScriptDirectory

from rag_assets.reports import plots


def read_migrations_once() -> None:
    """An instance in memory reads some hundred files to learn the newest version of its tables, which it creates."""
    ScriptDirectory.from_config = staticmethod(cache(ScriptDirectory.from_config))  # type: ignore[method-assign, assignment]


def draw_plots_once() -> None:
    """The same numbers give the same picture: tiny wikis have the same few."""
    for name in ("histogram", "stacked_bars", "bars", "lines"):
        setattr(plots, name, _once(getattr(plots, name)))


def _once(draw: Callable[..., str]) -> Callable[..., str]:
    drawn: dict[str, str] = {}

    @wraps(draw)
    def remembered(*arguments: object) -> str:
        key = repr(arguments)
        if key not in drawn:
            drawn[key] = draw(*arguments)
        return drawn[key]

    return remembered
