"""The parts of docs/ that are made from the code: the configuration and the command line reference.

`python scripts/generate_docs.py` writes them; `--check` fails where they are not what the code says.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click
import typer
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rag_serving.cli.group import ENTRY_POINTS, Commands, Later
from rag_serving.cli.main import app
from rag_serving.config import loading as config
from rag_serving.config.models import Price
from rag_serving.config.phases import Canary
from rag_serving.config.sections import Limit
from rag_serving.config.serving import CheckProxy
from rag_serving.config.sources import Profile, Profiles, Webhook

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOTE = "<!-- Made by scripts/generate_docs.py; do not edit. -->\n\n"
WORDS: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("reference.yaml").read_text(encoding="utf-8"))
"""Texts of the pages, and by purpose the keys that people want, with what each means."""
COMMON = {"--config", "--tenant", "--user", "--group", "--json", "--help"}
Written = dict[tuple[type, str], tuple[str, str]]
"""Where a key of a model is listed, and with which default."""
IN_A_LINE = (Canary, CheckProxy, Limit, Price, Webhook)
"""Sections whose keys the line of the key above them names."""
LONG = 80
"""Characters of a default beyond which it is left out."""
LINE = 12
"""Words of a key's meaning, after its first clause."""


def configuration() -> str:
    """Return docs/configuration.md: the keys that people want, then every key with its type, default and meaning."""
    parts = ["# Configuration\n\n", NOTE, WORDS["configuration"]]
    for wish, keys in WORDS["wanted"].items():
        parts += [
            f"## {wish}\n\n",
            *(f"- `{key}` (default {default(field_of(key))}): {text}\n" for key, text in keys.items()),
            "\n",
        ]
    parts.append(WORDS["all_keys"])
    parts += all_keys()
    return "".join(parts)


def field_of(key: str) -> FieldInfo:
    """Return a key's field; `sources.NAME` and `tenants.NAME` have the keys of any kind of source, and of a tenant."""
    options: list[type[BaseModel]] = [config.Config]
    field: FieldInfo | None = None
    for name in key.split("."):
        if name == "NAME":
            continue
        field = next(option.model_fields[name] for option in options if name in option.model_fields)
        options = list(models_of(field.annotation))
    assert field is not None
    return field


def models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections that a key may have."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_of(argument)


def sections(section: type[BaseModel], path: str, meaning: str = "") -> Iterator[tuple[str, str, type[BaseModel]]]:
    """Yield the place, the meaning and the model of a section and of those below it."""
    yield path, meaning, section
    if path == "tenants.NAME":  # the keys that differ for a tenant are listed where they are set for all
        return
    meanings = descriptions(section)
    for name, field in section.model_fields.items():
        place = f"{path}.{name}".lstrip(".") + ".NAME" * (get_origin(field.annotation) is dict)
        of = [model for model in models_of(field.annotation) if model not in IN_A_LINE]
        if any(issubclass(model, Profile) for model in of):  # several keys that each have the same keys
            place = "profiles.NAME"
        text = "" if place.endswith("NAME") else one_line(meanings.get(name))
        text += " By default there is none." if text and field.default is None else ""
        for model in of:
            yield from sections(model, place, text)


def listed(path: str, models: Sequence[type[BaseModel]], written: Written) -> Iterator[str]:
    """Yield the lines of a place: a key of several kinds once, keys that an earlier place has by their names."""
    own: list[str] = []
    shared: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for model in models for name in model.model_fields):
        having = [model for model in models if name in model.model_fields]
        field = having[0].model_fields[name]
        owner = next(base for base in reversed(having[0].__mro__) if name in vars(base).get("__annotations__", {}))
        if heads_section(field, path) or (name == "kind" and len(get_args(field.annotation)) == 1):
            continue
        defaults = "/".join(dict.fromkeys(default(model.model_fields[name]) for model in having))
        if (owner, name) in written:
            earlier, usual = written[owner, name]
            shared.setdefault(earlier, []).append(f"`{name}`" + f" {defaults}" * (defaults != usual))
            continue
        written[owner, name] = path, defaults
        own.append(f"- `{name}` {type_of(field)} {defaults}: {meaning_of(name, having, len(models))}\n")
    yield from own
    is_worth = bool(own) or any(" " in name for names in shared.values() for name in names)
    yield from (f"- As in `{place}`: {', '.join(names)}\n" for place, names in shared.items() if is_worth)


def meaning_of(name: str, having: Sequence[type[BaseModel]], kinds: int) -> str:
    """Return what a key means, with the kinds that have it where not all do, or mean the same by it."""
    by_text: dict[str, list[str]] = {}
    for model in having:
        by_text.setdefault(brief(one_line(descriptions(model).get(name))), []).append(label(model))
    if len(by_text) == 1 and len(having) == kinds:
        return next(iter(by_text))
    return "; ".join(f"{text} ({', '.join(names)})" for text, names in by_text.items())


def heads_section(field: FieldInfo, path: str) -> bool:
    """Return whether a key only holds the keys of a section that is listed by itself."""
    is_many = bool(path) and get_origin(field.annotation) is dict
    return not is_many and any(model not in IN_A_LINE for model in models_of(field.annotation))


def label(section: type[BaseModel]) -> str:
    """Return the kind of a source, or the name of a profile."""
    return kind_of(section) if "kind" in section.model_fields else section.__name__.removesuffix("Profile").lower()


def all_keys() -> Iterator[str]:
    """Yield a heading and the keys of each place; one whose keys are all listed before is left out."""
    texts: dict[str, str] = {}
    places: dict[str, dict[type[BaseModel], None]] = {}
    for place, text, model in sections(config.Config, ""):
        texts.setdefault(place, text)
        places.setdefault(place, {})[model] = None
    differing = (
        f"`{name}`" + f" ({', '.join(model.model_fields)})" * model.__name__.startswith("Tenant")
        for name, field in config.Tenant.model_fields.items()
        for model in [*models_of(field.annotation)][:1]
    )
    texts["tenants.NAME"] = f"Also, for this tenant, keys of {', '.join(differing)}."
    texts["profiles.NAME"] = f"The profiles are {', '.join(f'`{name}`' for name in Profiles.model_fields)}."
    texts["sources.NAME"] = f"`kind` is one of {', '.join(f'`{label(model)}`' for model in places['sources.NAME'])}."
    written: Written = {}
    for place, models in places.items():
        if lines := [*listed(place, [*models], written)]:
            yield f"\n### `{place}`\n\n" if place else "\n### At the top\n\n"
            yield f"{texts[place]}\n\n" if texts[place] else ""
            yield from lines


def brief(text: str) -> str:
    """Return the beginning of a key's meaning: its first clause, and further ones while they fit into a line."""
    clauses = re.split(r"(?<=[;.]) (?=\S)", text)
    kept = clauses[0]
    for clause in clauses[1:]:
        if len(f"{kept} {clause}".split()) > LINE:
            break
        kept = f"{kept} {clause}"
    return kept.rstrip(";.")


def type_of(field: FieldInfo) -> str:
    """Return a key's type in a word, or its choices."""
    if choices := choices_of(field.annotation):
        return "/".join(choices)
    plain = {
        str: "text",
        int: "int",
        float: "number",
        bool: "bool",
        Path: "path",
        dict: "mapping",
        list: "list",
        tuple: "list",
    }
    kinds = [argument for argument in (*get_args(field.annotation), field.annotation) if argument is not type(None)]
    if get_origin(field.annotation) in plain:
        return plain[get_origin(field.annotation) or str]
    return next((plain.get(get_origin(kind) or kind, "mapping") for kind in kinds), "mapping")


def choices_of(annotation: Any) -> list[str]:
    """Return the texts that a key may be."""
    if get_origin(annotation) is Literal:
        return [str(choice).lower() if isinstance(choice, bool) else str(choice) for choice in get_args(annotation)]
    if get_origin(annotation) in (Union, UnionType):
        return [choice for argument in get_args(annotation) for choice in choices_of(argument)]
    return []


def kind_of(section: type[BaseModel]) -> str:
    return str(section.model_fields["kind"].annotation.__args__[0])  # type: ignore[union-attr]


@cache
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
    """Return a key's default as YAML has it; that of a section is in its own lines."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "`{}`"
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if text else "`''`"


def commands() -> str:
    """Return docs/commands.md: what each command and subcommand does, those of other packages included."""
    root = typer.main.get_command(app)
    groups = root.grouped(click.Context(root, info_name="citelock"))  # type: ignore[attr-defined,arg-type]
    overview = [f"- {group}: {', '.join(f'`{name}`' for name in names)}\n" for group, names in groups.items()]
    parts = ["# Commands\n\n", NOTE, WORDS["commands"], *overview, "\n"]
    for path, command in walk(root, "citelock"):
        context = click.Context(command, info_name=path)
        block = "\n".join([*examples(command), *options(command, context)])
        parts.append(f"## `{path}`\n\n{one_line(inspect.cleandoc(command.help or '').partition(chr(10) * 2)[0])}\n\n")
        parts += [f"```text\n{block}\n```\n\n"] if block else []
    return "".join(parts).rstrip() + "\n"


def examples(command: click.Command) -> list[str]:
    """Return the lines of a command's help that show it."""
    text = f"{command.help or ''}\n{getattr(command, 'epilog', None) or ''}"
    lines = [line.strip(chr(8) + " ") for line in text.splitlines()]
    return [line for line in lines if re.match(r"citelock |printf |CITELOCK_|cat |curl |Start with: ", line)]


def options(command: click.Command, context: click.Context) -> list[str]:
    """Return a line for each argument and option that not most commands have."""
    found = []
    for parameter in command.get_params(context):
        if not COMMON & set(parameter.opts) and not getattr(parameter, "hidden", False):
            names, meaning = parameter.get_help_record(context) or (
                parameter.make_metavar(context),
                getattr(parameter, "help", ""),
            )
            found.append(f"{names}  {meaning}")
    return found


def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield a command with its path, then its subcommands by group or name; late commands are imported."""
    command = command.imported() if isinstance(command, Later) else command
    yield path, command
    if hasattr(command, "list_commands"):
        context = click.Context(command, info_name=path)
        names = command.list_commands(context)
        for name in names if isinstance(command, Commands) else sorted(names):
            yield from walk(command.get_command(context, name), f"{path} {name}")


def not_installed() -> list[str]:
    """Return the commands that the project and its plug-ins declare and this installation lacks: their help cannot be
    written."""
    files = [ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]
    groups = [tomllib.loads(file.read_text(encoding="utf-8"))["project"]["entry-points"] for file in files]
    declared = {name for group in groups for name in group.get(ENTRY_POINTS, ())}
    return sorted(declared - {entry.name for entry in entry_points(group=ENTRY_POINTS)})


def main() -> int:
    if lacking := not_installed():
        print(f"commands not installed: {', '.join(lacking)}; run `make install`", file=sys.stderr)
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
