"""The `citelock` command group: commands that are loaded when they are called, errors in one line."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from rag_serving.plugins import loaded, one
from rag_serving.privacy import complain

if TYPE_CHECKING:
    from pydantic import BaseModel

Values = TypeVar("Values", bound="BaseModel")

ENTRY_POINTS = "citelock.commands"
FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130

# Commands of other modules with the line that `citelock --help` shows: importing them for it would take seconds.
_MODULES: Mapping[str, tuple[str, str]] = {
    "add": ("rag_serving.cli.uploads:add", "Put files into an upload inbox."),
    "chat": ("rag_serving.cli.chat:command", "Ask in a conversation: a question may lean on those before it."),
    "check": ("rag_serving.cli.check:command", "Check a text against the pages: what stands there, what contradicts."),
    "generations": ("rag_serving.cli.generations:app", "List, show, roll back, verify or repair generations."),
    "feedback": ("rag_serving.cli.feedback:command", "Say what an answer was: helpful, or not."),
    "mcp": ("rag_serving.cli.mcp:command", "Let agents and chat clients ask over MCP."),
    "phase": ("rag_serving.cli.phase:command", "Show which phase of retrieval each tenant is asked in, and why."),
    "uploads": ("rag_serving.cli.uploads:app", "List, show or delete uploaded documents."),
    "rerank-service": ("rag_serving.rerank_service.command:command", "Serve a cross-encoder that reranks passages."),
}
GROUPS: Mapping[str, tuple[str, ...]] = {
    "ask": ("ask", "chat", "search", "serve", "mcp"),
    "build": ("init", "build", "add", "doctor"),
    "check": ("check", "evaluate", "receipt"),
}
"""The commands that most people need; the others, also those of plug-ins, are for who operates an installation."""
OPERATE = "operate"
_HELP = {
    "audit": "Verify, export or anchor the audit log.",
    "bench": "Measure retrieval on any folder in BEIR layout.",
    "erase": "Remove everything that is kept of a tenant.",
    "forget": "Delete what a user asked and judged.",
    "evaluate": "Ask the questions of a gold set and measure the answers.",
    "gold": "Draft questions for gold sets.",
    "build": "Sync the sources that changed and publish the tenants they belong to.",
    "generations.repair": "Restore the damaged parts of a generation, to the last bit as they were.",
    "init": "Write the configuration of a source, after a look at it.",
    "lint": "List what pages say wrong about themselves: other values, dead links, overdue reviews.",
    "home": "Look at a home in an object store, and delete what nothing needs.",
    "index": "Prepare or look at the database of published generations.",
    "jobs": "List, show or retry embedding jobs; what embedding took.",
    "keys": "Create, list or revoke keys of machines.",
    "worker": "Embed what builds enqueue.",
    "readers": "Say who may read a page, and by which restriction.",
}
_PLUGINS = {
    **dict.fromkeys(("audit", "erase", "forget", "keys"), "governance"),
    **{"home": "scale", "index": "stores", "jobs": "scale", "worker": "scale"},
}  # fmt: skip
"""Commands of plug-ins with the extra that installs them."""
_WRITING = frozenset({"dagster", "datasketch", "evals", "rag_assets"})  # what a machine that only serves may lack
_USAGE_ERRORS = frozenset({"ConfigError", "FilterError", "UsageError"})


class UsageError(Exception):
    """The arguments cannot be used; the message says which and why."""


def overridden(section: Values, **given: object) -> Values:
    """Return a section of the configuration with the options that were given."""
    return section.model_copy(update={name: value for name, value in given.items() if value is not None})


class JoinedCommands(TyperGroup):
    """A group with the commands of modules and of entry points, which are imported when they are called."""

    prefix = ""
    """How the names of its entry points begin."""
    modules: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *self.modules, *sorted(_installed(self.prefix))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.modules:
            target, summary = self.modules[cmd_name]
            module, _, name = target.partition(":")
            return Later(cmd_name, summary, lambda: getattr(import_module(module), name))
        own = super().get_command(ctx, cmd_name)
        if not own and (entry := _installed(self.prefix).get(cmd_name)):  # every installed package is looked at
            return Later(cmd_name, _HELP.get(entry.name, f"From {entry.value}."), entry.load)
        if not own and cmd_name in _PLUGINS:
            return Later(cmd_name, "", lambda: one(ENTRY_POINTS, cmd_name, _PLUGINS[cmd_name]))
        return own


class Commands(JoinedCommands):
    """The group `citelock`."""

    modules = _MODULES

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, group by group."""
        return [name for names in self.grouped(ctx).values() for name in names]

    def grouped(self, ctx: Any) -> dict[str, list[str]]:
        """Return the names of the installed commands of each group."""
        left = set(super().list_commands(ctx))
        groups = {group: [name for name in names if name in left] for group, names in GROUPS.items()}
        return groups | {OPERATE: sorted(left.difference(*groups.values()))}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line for each command of the first groups, and the names of the others."""
        groups = self.grouped(ctx)
        others = groups.pop(OPERATE)
        for group, names in groups.items():
            with formatter.section(group.capitalize()):
                formatter.write_dl([(name, self.get_command(ctx, name).get_short_help_str(80)) for name in names])
        with formatter.section(f"{OPERATE.capitalize()} (citelock COMMAND --help says more)"):
            for line in wrap(", ".join(others), formatter.width - 2, break_on_hyphens=False):
                formatter.write(f"  {line}\n")

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error ends in one line on standard error and an exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from None
        except Exception as error:
            is_told = type(error).__module__.startswith(("typer", "click"))  # wrong arguments, `Exit`, `Abort`
            if is_told or os.environ.get("CITELOCK_DEBUG"):
                raise
            complain(_told(error))
            raise typer.Exit(WRONG_USAGE if type(error).__name__ in _USAGE_ERRORS else FAILED) from None


class Later(TyperCommand):
    """A command that is imported when it is called."""

    def __init__(self, name: str, summary: str, load: Callable[[], Any]) -> None:
        super().__init__(name, help=summary)
        self._load = load

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.imported().make_context(info_name, args, parent=parent, **extra)

    def imported(self) -> Any:
        """Return the command itself, with its arguments and subcommands."""
        return _command(self.name or "", self._load())


def _command(name: str, loaded: Any) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    if isinstance(loaded, typer.Typer):
        app.add_typer(loaded, name=name)
    else:
        app.command(name)(loaded)
    return typer.main.get_group(app).commands[name]


@cache
def _installed(prefix: str) -> Mapping[str, EntryPoint]:
    named = {name.removeprefix(prefix): entry for name, entry in loaded(ENTRY_POINTS).items()}
    return {name: entry for name, entry in named.items() if entry.name == prefix + name and "." not in name}


def _told(error: Exception) -> str:
    """Return one line; errors of this project say what to do, others only what they are."""
    lacking = str(error.name).partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if lacking in _WRITING:
        return (
            f"this command belongs to the machine that builds the indexes ({lacking} is not installed here); "
            "run it there, or pip install 'citelock[assets]'"
        )
    message = " ".join(str(error).split())
    if type(error).__module__.startswith(("rag_", "evals.", "citelock_")):
        return message
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" (writing {error.filename})" if error.filename else ""
        return f"no space is left on the disk{where}; what is published is kept: make room, then run the command again"
    return f"unexpected {type(error).__name__}: {message}; set CITELOCK_DEBUG=1 to see where"
