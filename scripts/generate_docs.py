"""The parts of docs/ that are made from the code: the configuration and the command line reference.

`python scripts/generate_docs.py` writes them; `--check` fails where they are not what the code says.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import click
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from rag_serving.cli.group import ENTRY_POINTS, Later
from rag_serving.cli.main import app
from rag_serving.config import (
    budgets,
    documents,
    jobs,
    jwt,
    keyword,
    oidc,
    orchestration,
    phases,
    profiles,
    sections,
    tenants,
)
from rag_serving.config import loading as config
from rag_serving.config import sources as source_kinds

DOCS = Path(__file__).parents[1] / "docs"
NOTE = "<!-- Made by scripts/generate_docs.py; do not edit. -->\n\n"


def configuration() -> str:
    """docs/configuration.md: every key with its default and its meaning."""
    parts = [
        "# Configuration\n\n",
        NOTE,
        "`config/app.yaml`, or the file named by `--config` or `CITELOCK_CONFIG`. Environment variables override\n"
        "keys: `CITELOCK_RETRIEVAL__DENSE_K=40` overrides `retrieval.dense_k`. Secrets come only from environment\n"
        "variables: keys that end in `_env` contain the name of the variable.\n\n",
    ]
    top = dict(config.Config.model_fields)
    parts += table(config.Config, {name: field for name, field in top.items() if not section_of(field)})
    for name, field in top.items():
        if section := section_of(field):
            parts += [f"\n## `{name}`\n\n{section.__doc__}\n\n", *table(section)]
        if name == "profiles":
            parts += [f"\n### `profiles.NAME`\n\n{profiles.Profile.__doc__}\n\n", *table(profiles.Profile)]
        if name == "retrieval":
            parts += [f"\n### `retrieval.canary`\n\n{phases.Canary.__doc__}\n\n", *table(phases.Canary)]
        if name == "orchestration":
            celery = orchestration.CelerySteps
            parts += [f"\n### `orchestration.celery`\n\n{celery.__doc__}\n\n", *table(celery)]
        if name == "documents":
            parts += [f"\n### `documents.ocr`\n\n{one_line(documents.Ocr.__doc__)}\n\n", *table(documents.Ocr)]
        if name == "serving":
            parts += [f"\n### `serving.jwt`\n\n{one_line(jwt.Jwt.__doc__)}\n\n", *table(jwt.Jwt)]
            parts += [f"\n### `serving.jwt.claims`\n\n{one_line(jwt.JwtClaims.__doc__)}\n\n", *table(jwt.JwtClaims)]
            parts += [f"\n### `serving.oidc`\n\n{one_line(oidc.Oidc.__doc__)}\n\n", *table(oidc.Oidc)]
            parts += [f"\n### `serving.oidc.claims`\n\n{one_line(oidc.Claims.__doc__)}\n\n", *table(oidc.Claims)]
    parts += [f"\n## `tenants.NAME`\n\n{tenants.Tenant.__doc__}\n\n", *table(tenants.Tenant)]
    own = phases.TenantRetrieval
    parts += [f"\n### `tenants.NAME.retrieval`\n\n{own.__doc__}\n\n", *table(own)]
    parts += [f"\n### `tenants.NAME.jobs`\n\n{jobs.TenantJobs.__doc__}\n\n", *table(jobs.TenantJobs)]
    steps = orchestration.TenantOrchestration
    parts += [f"\n### `tenants.NAME.orchestration`\n\n{steps.__doc__}\n\n", *table(steps)]
    parts += [f"\n### `tenants.NAME.budgets`\n\n{budgets.TenantBudgets.__doc__}\n\n", *table(budgets.TenantBudgets)]
    parts.append("\n## Kinds of sources\n\nUnder `sources:`, by key; `kind` selects the type.\n")
    for section in get_args(get_args(source_kinds.Source)[0]):
        parts += [f"\n### `kind: {kind_of(section)}`\n\n{one_line(section.__doc__)}\n\n", *table(section)]
    parts.append("\n### `auth` of a live source\n")
    for section in (source_kinds.NoAuth, source_kinds.BasicAuth, source_kinds.BearerAuth):
        parts += [f"\n`kind: {kind_of(section)}`: {section.__doc__}\n\n", *table(section)]
    return "".join(parts)


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def kind_of(section: type[BaseModel]) -> str:
    annotation: Any = section.model_fields["kind"].annotation
    return str(annotation.__args__[0])


def table(section: type[BaseModel], fields: dict[str, FieldInfo] | None = None) -> Iterator[str]:
    meanings = descriptions(section)
    yield "| key | default | meaning |\n| --- | --- | --- |\n"
    for name, field in (section.model_fields if fields is None else fields).items():
        if name != "kind" or len(get_args(field.annotation)) > 1:
            yield f"| `{name}` | {default(field)} | {one_line(meanings.get(name))} |\n"


def descriptions(section: type[BaseModel]) -> dict[str, str]:
    """Return the text under each key in the source of a section and of those it extends."""
    found: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if issubclass(base, BaseModel) and base.__module__.startswith("rag_"):
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body  # type: ignore[attr-defined]
            for field, text in pairwise(body):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                ):
                    found[ast.unparse(field.target)] = str(text.value.value)
    return found


def one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if isinstance(field.default, jwt.JwtClaims):
        return "[below](#servingjwtclaims)"
    if isinstance(field.default, oidc.Claims):
        return "[below](#servingoidcclaims)"
    if isinstance(field.default, profiles.Profile):
        given = field.default.model_dump(exclude_defaults=True)
        return f"`{{{', '.join(f'{name}: {yaml_value(value)}' for name, value in given.items())}}}`"
    if isinstance(field.default, phases.TenantRetrieval):
        return "[below](#tenantsnameretrieval)"
    if isinstance(field.default, jobs.TenantJobs):
        return "[below](#tenantsnamejobs)"
    if isinstance(field.default, budgets.TenantBudgets):
        return "[below](#tenantsnamebudgets)"
    if isinstance(field.default, keyword.Keyword):
        return "as [`keyword`](#keyword) says"
    if isinstance(field.default, sections.Features):
        return "as [`features`](#features) says"
    if isinstance(field.default, orchestration.CelerySteps):
        return "[below](#orchestrationcelery)"
    if isinstance(field.default, orchestration.TenantOrchestration):
        return "[below](#tenantsnameorchestration)"
    if isinstance(field.default, documents.Ocr):
        return "[below](#documentsocr)"
    if isinstance(field.default, BaseModel):
        return f"`kind: {kind_of(type(field.default))}`"
    value = str(field.default) if isinstance(field.default, Path) else field.default
    return f"`{'null' if value is None else str(value).lower() if isinstance(value, bool) else repr(value)}`"


def yaml_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def commands() -> str:
    """docs/commands.md: the help text of each command and subcommand, those of other packages included."""
    root = typer.main.get_command(app)
    parts = ["# Commands\n\n", NOTE]
    for path, command in walk(root, "citelock"):
        context = click.Context(command, info_name=path, terminal_width=100, max_content_width=100)
        parts.append(f"## `{path}`\n\n```text\n{command.get_help(context).strip()}\n```\n\n")
    return "".join(parts).rstrip() + "\n"


def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield a command with its path, then its subcommands by name; commands that are imported late are imported."""
    command = command.imported() if isinstance(command, Later) else command
    yield path, command
    if hasattr(command, "list_commands"):
        context = click.Context(command, info_name=path)
        for name in sorted(command.list_commands(context)):
            yield from walk(command.get_command(context, name), f"{path} {name}")


def not_installed() -> list[str]:
    """Return the commands that pyproject.toml declares and this installation lacks: their help cannot be written."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return sorted(
        set(project["entry-points"][ENTRY_POINTS]) - {entry.name for entry in entry_points(group=ENTRY_POINTS)}
    )


def main() -> int:
    if lacking := not_installed():
        print(f"commands not installed: {', '.join(lacking)}; run `pip install -e .`", file=sys.stderr)
        return 1
    stale = []
    for name, text in (("configuration.md", configuration()), ("commands.md", commands())):
        path = DOCS / name
        if "--check" in sys.argv:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(str(path.relative_to(DOCS.parent)))
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"{', '.join(stale)}: not what the code says; run `make docs`", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
