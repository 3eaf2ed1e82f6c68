"""Options that several commands share, and the tenant that one of them means.

Belongs here: what reads the same in every command's help. Does not belong here: options of one command.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel

    from rag_serving.config.loading import Config

Values = TypeVar("Values", bound="BaseModel")

ConfigPath = Annotated[
    Path | None, typer.Option("--config", help="Configuration file; default config/app.yaml or CITELOCK_CONFIG.")
]
Tenant = Annotated[str | None, typer.Option("--tenant", help="The tenant; may be left out where there is only one.")]
User = Annotated[str | None, typer.Option("--user", help="Who asks: account id or name.")]
Groups = Annotated[list[str] | None, typer.Option("--group", help="A group of who asks; repeatable.")]
Docs = Annotated[
    Path | None,
    typer.Option("--docs", help="A folder of documents, in place of a configuration; its index is kept beside them."),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="With --docs: answer when all is indexed, not from words alone before that.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class FolderIndex(NamedTuple):
    """The configuration of a question, and the maker of missing vectors: with progress shown, or silently."""

    config: Path | None
    finish: Callable[[bool], None] | None = None


def overridden(section: Values, **given: object) -> Values:
    """Return a section of the configuration with the options that were given."""
    return section.model_copy(update={name: value for name, value in given.items() if value is not None})


@contextmanager
def indexed(docs: Path | None, config: Path | None, is_whole: bool = False) -> Iterator[Path | None]:
    """Yield the configuration of a folder, whose index is made first if it is missing; else the given one.

    Where many vectors are missing, and not all is wanted first, they are made after what is done with it.

    Raises:
        UsageError: both are given, or there is nothing to index.
    """
    index = _index(docs, config, is_whole)
    yield index.config
    if index.finish:
        index.finish(True)


def config_of(docs: Path | None, config: Path | None, is_whole: bool = False) -> Path | None:
    """Return the same for what runs for long: missing vectors are made meanwhile, and taken over."""
    index = _index(docs, config, is_whole)
    if index.finish:
        threading.Thread(target=index.finish, args=[False], name="folder", daemon=True).start()
    return index.config


def _index(docs: Path | None, config: Path | None, is_whole: bool) -> FolderIndex:
    if docs is None:
        return FolderIndex(config)
    from rag_serving.cli.group import UsageError
    from rag_serving.plugins import one

    if config is not None:
        raise UsageError("--docs brings a configuration of its own; leave out --config")
    index: FolderIndex = one("citelock.folders", "docs", "assets")(docs, is_whole)
    return index


def chosen_tenant(config: Config, name: str | None) -> str:
    """Return the tenant of this name, or the only one.

    Raises:
        ConfigError: it is not configured, or there are several.
    """
    from rag_serving.access.principals import choose_tenant
    from rag_serving.config.loading import ConfigError

    try:
        return choose_tenant(sorted(config.tenants), name, "--tenant NAME")
    except ValueError as error:
        raise ConfigError(str(error)) from None
