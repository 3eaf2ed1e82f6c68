"""`citelock init`: from five answers to a configuration, and what a first build of it would take.

Belongs here: the questions, the text of the file, what is shown of the source. Does not belong here: whether a source
can be read (`monitoring.source_health`), what a configuration may say (`rag_serving.config`).

The file is written at the end, whole: a source that cannot be read, or Ctrl-C, leaves what was there.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from math import ceil
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import typer
import yaml

from rag_assets.monitoring.source_health import examine
from rag_assets.sources.confluence.client import ConfluenceClient, in_path
from rag_assets.sources.confluence.listing import DETAILS, LIST_LIMIT, SpaceScope, counted, list_ids
from rag_assets.sources.confluence.source import open_client
from rag_assets.sources.confluence.transport import AccessRefused, ServerFault
from rag_assets.sources.sites.trees import opened_tree
from rag_assets.steps.readers import clauses, grants_of, in_words, space_readers
from rag_serving.access.principals import EVERYONE
from rag_serving.artifacts.store import write_bytes
from rag_serving.cli.group import FAILED, UsageError
from rag_serving.cli.printing import finding_line
from rag_serving.config.loading import DEFAULT_CONFIG, Config, ConfigError, config_path, load_config, parse_config
from rag_serving.config.sources import Confluence, Files, SiteSource
from rag_serving.documents.kinds import kind_by_name
from rag_serving.escaping.targets import for_terminal

Kind = Literal["confluence", "docs", "files"]
_KINDS = {"confluence": "confluence", "docs": "docs_folder", "files": "files"}
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")  # capitals: a secret that is given in place of its name is refused
_PAGE_ADDRESS = re.compile(r"(https?://.+?)/(?:spaces|display)/([^/?#]+).*")
_LISTED = 1_000  # pages that are asked for their restrictions: five requests
_CHUNKS_PER_PAGE = 5  # 332 passages of the 64 pages of sample/
_CHUNKS_PER_S = 25  # all-MiniLM-L6-v2: passages of sample/, 24.7 for each second of one core of an AMD EPYC
_KB_PER_CHUNK = 15  # 5 in a generation (docs/benchmarks-indexing.json), which has one before it, tables and caches
_NOTES = {
    "readers": "everyone, from_source (what the space says) or [group:NAME, user:NAME]",
    "auth": "names of environment variables; no secret stands here",
    "schedule": "cron in UTC; Dagster (`make up`) follows it",
}


def _answer(asks: bool, flag: str, given: str | None, question: str, default: str | None = None) -> str:
    """Return an answer in one line: as a flag gave it, as a person types it, or the default.

    Raises:
        UsageError: there is none, or it has a character that no name has.
    """
    if given is None and asks:
        given = typer.prompt(question, default=default)
    value = default if given is None else given.strip()
    if not value:
        raise UsageError(f"{flag} is missing: {question[0].lower()}{question[1:]}")
    if not value.isprintable():
        raise UsageError(f"{flag} has a character that no name has, such as a line's end")
    return value


def command(
    kind: Annotated[Kind | None, typer.Option("--kind", help="A Confluence space, documentation, or files.")] = None,
    url: Annotated[str | None, typer.Option("--url", help="Address of the Confluence or of the docs.")] = None,
    space: Annotated[str | None, typer.Option("--space", help="Key of the Confluence space.")] = None,
    path: Annotated[str | None, typer.Option("--path", help="Folder or zip of documentation or files.")] = None,
    readers: Annotated[str | None, typer.Option("--readers", help="everyone, from_source or group:NAME,…")] = None,
    token_env: Annotated[str | None, typer.Option("--token-env", help="Variable with the token, or none.")] = None,
    user_env: Annotated[str | None, typer.Option("--user-env", help="Variable with the user, on Cloud.")] = None,
    schedule: Annotated[str | None, typer.Option("--schedule", help="Cron of the syncs in UTC, or none.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="File to write.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: take the defaults.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Change a file that is there without asking.")] = False,
) -> None:
    """Write the configuration of a first or a further source: a Confluence space, documentation, files.

    \b
    citelock init
    citelock init --kind confluence --url https://acme.example/wiki --space ENG --readers group:staff
    citelock init --kind docs --path docs --readers everyone --config docs.yaml --yes

    It asks for what no flag gives, reads the source as `citelock doctor` does, and shows who could read how many pages
    before the file is written. Secrets stay in the environment: the file names their variables.
    """
    asks = _is_terminal() and not yes
    chosen = _answer(asks, "--kind", kind, "What is it: confluence, docs or files")
    if chosen not in _KINDS:
        raise UsageError(f"--kind is confluence, docs or files, not {chosen!r}")
    if chosen == "confluence":
        source = _confluence(asks, url, space, readers, token_env, user_env)
    else:
        source = {"path": _answer(asks, "--path", path, "Folder or zip")}
        source |= {"base_url": _address(url)} if url else {}
        source["readers"] = _readers(asks, readers, None)
    usual = "*/15 * * * *" if chosen == "confluence" else "none"
    ticks = _answer(asks, "--schedule", schedule, "Sync by cron (UTC), or none", usual)
    source |= {} if ticks == "none" else {"schedule": ticks}
    default = str(config_path())
    file = Path(_answer(asks, "--config", str(config) if config else None, "File to write", default))
    key = _key(source.get("space") or Path(source["path"]).name, chosen)
    before = file.read_text(encoding="utf-8") if file.exists() else None
    text = _new_file(file, key, chosen, source) if before is None else _with_source(before, file, key, chosen, source)
    settings = parse_config(yaml.safe_load(text), str(file))
    is_well = _look(settings, key)
    if before is not None:
        lines = difflib.unified_diff(before.splitlines(), text.splitlines(), str(file), str(file), lineterm="")
        typer.echo(for_terminal("\n".join(lines)))
    if not _may_write(asks, file, is_well, before is None or force):
        raise typer.Exit(FAILED)
    write_bytes(file, text.encode())
    named = "" if str(file) == default else f" --config {quote(str(file))}"
    typer.echo(for_terminal(f"{file} is written. Next: citelock build{named}"))


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _may_write(asks: bool, file: Path, is_well: bool, may_change: bool) -> bool:
    """Return whether to write: a source that fails, and a file that is there, are for a person to decide on."""
    if asks:
        question = f"Write {file}" if is_well else f"Write {file} all the same"
        return (is_well and may_change) or typer.confirm(for_terminal(question), default=is_well and may_change)
    if is_well and not may_change:
        raise UsageError(f"{file} is there already: --force adds the source to it as shown")
    return is_well


def _confluence(
    asks: bool, url: str | None, space: str | None, readers: str | None, token: str | None, user: str | None
) -> dict[str, Any]:
    address = _answer(asks, "--url", url, "Address of the Confluence, such as https://acme.atlassian.net/wiki")
    page = _PAGE_ADDRESS.fullmatch(address)  # of a page or a space, as a browser shows it
    address = _address(page[1] if page else address).rstrip("/")
    is_cloud = (urlsplit(address).hostname or "").endswith(".atlassian.net")
    if is_cloud and not urlsplit(address).path:
        address += "/wiki"
    key = _answer(asks, "--space", space, "Key of the space", page[2] if page else None)
    source: dict[str, Any] = {"base_url": address, "space": key, "readers": _readers(asks, readers, "from_source")}
    token = _answer(asks, "--token-env", token, "Environment variable that has the token, or none", "CONFLUENCE_TOKEN")
    if token == "none":
        return source
    auth = {"kind": "bearer", "token_env": token}
    if is_cloud or user:
        name = _answer(asks, "--user-env", user, "Environment variable that has the user", "CONFLUENCE_USER")
        auth = {"kind": "basic", "user_env": name, "token_env": token}
    if not all(_VARIABLE.fullmatch(name) for key, name in auth.items() if key != "kind"):
        raise UsageError("--token-env and --user-env take names of environment variables, in capitals, no secrets")
    return {**source, "auth": auth}


def _address(url: str) -> str:
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.username is None and not parts.query:
            return url
    raise UsageError("--url is https://HOST/PATH, without a user, a password or a query")


def _readers(asks: bool, given: str | None, default: str | None) -> str | list[str]:
    question = "Who may read it: everyone, or a list such as group:staff,user:ann"
    said = _answer(asks, "--readers", given, question + (", or from_source" if default else ""), default)
    return said if said in ("everyone", "from_source") else [one.strip() for one in said.split(",")]


def _key(name: str, kind: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-_")[:60] or kind


def _block(key: str, kind: str, tenant: str, source: dict[str, Any]) -> str:
    """Return the source in YAML, indented by two; whatever an answer holds is one scalar."""
    lines = [f"  {_scalar(key)}:"]
    for name, value in {"kind": _KINDS[kind], "tenant": tenant, **source}.items():
        lines.append(f"    {name}: {_scalar(value)}" + (f"  # {_NOTES[name]}" if name in _NOTES else ""))
    return "\n".join(lines) + "\n"


def _scalar(value: object) -> str:
    return yaml.safe_dump([value], default_flow_style=True, allow_unicode=True, width=10**6)[1:-2]


def _new_file(file: Path, key: str, kind: str, source: dict[str, Any]) -> str:
    home = ".citelock" if file.name == DEFAULT_CONFIG.name else f".citelock-{_key(file.stem, kind)}"
    head = "# Written by `citelock init`. Every key, its default and its meaning: docs/configuration.md\n"
    return f"{head}home: {home}\n\ntenants:\n  main: {{}}\n\nsources:\n{_block(key, kind, 'main', source)}"


def _with_source(before: str, file: Path, key: str, kind: str, source: dict[str, Any]) -> str:
    """Return a file with one more source on top of its sources; everything else stays as it is.

    Raises:
        ConfigError: that does not give what was there and the source; the source is printed, to be put in by hand.
    """
    settings = load_config(file)
    if key in settings.sources:
        raise UsageError(f"{file} has a source {key!r} already: edit it there, or name another file with --config")
    known, tenants = yaml.safe_load(before) or {}, list(settings.tenants)
    block = _block(key, kind, tenants[0] if len(tenants) == 1 else "TENANT", source)
    text = re.sub(r"^sources:[ \t]*(#.*)?\n", lambda line: line[0] + block, before, count=1, flags=re.MULTILINE)
    wanted = {**known, "sources": {**(known.get("sources") or {}), **yaml.safe_load(block)}}
    with suppress(yaml.YAMLError):
        if len(tenants) == 1 and yaml.safe_load(text) == wanted:
            return text
    typer.echo(for_terminal(block.rstrip("\n")))
    raise ConfigError(f"{file} is not changed: put the lines above below its `sources:`, with the tenant they are for")


def _look(config: Config, key: str) -> bool:
    """Show whether the source can be read and what a build would take; return whether it can."""
    one = config.model_copy(update={"sources": {key: config.sources[key]}})
    found = next(finding for finding in examine(one) if finding.name == f"source {key}")
    typer.echo(finding_line(found))
    if found.state == "fail":
        return False
    for line in _told(one, key):
        typer.echo(f"      {for_terminal(line)}")
    return True


def _told(config: Config, key: str) -> Iterator[str]:
    """Yield how much there is and who may read it, and what a first build takes."""
    source, permissions, narrower, count = config.sources[key], None, "", 0
    if isinstance(source, Confluence):
        with open_client(source) as client:
            count, listed, restricted = _survey(client, source)
            if source.readers == "from_source":
                answer = client.get(f"rest/api/space/{in_path(source.space)}", {"expand": "permissions"})
                permissions = answer.get("permissions")
        narrower = f"; {restricted:,} of the first {listed:,} are restricted further" if listed else ""
    elif isinstance(source, Files | SiteSource) and source.path:
        with opened_tree(source.path, key, source.max_file_bytes) as tree:
            count = sum(kind_by_name(name) is not None for name in tree.names)
    who = in_words(clauses(space_readers(source.readers, permissions)))
    yield f"{count:,} pages, readable for {who}{narrower}"
    chunks = count * _CHUNKS_PER_PAGE
    minutes, megabytes = chunks / _CHUNKS_PER_S / 60, chunks * _KB_PER_CHUNK / 1000
    yield f"a first build takes about {ceil(minutes):,} min and {ceil(megabytes):,} MB"


def _survey(client: ConfluenceClient, source: Confluence) -> tuple[int, int, int]:
    """Return how many pages there are, how many of them were asked who may read them, and how many say: not all."""
    scope = SpaceScope(source.space)
    params = {"spaceKey": source.space, "type": "page", "limit": LIST_LIMIT, "expand": DETAILS}
    restricted = listed = 0
    try:
        for entry in islice(client.collect("rest/api/content", params), _LISTED):
            listed += 1
            restricted += grants_of(entry).own != EVERYONE
        count = counted(client, scope) if listed == _LISTED else listed
    except (AccessRefused, ServerFault):
        count = None
    return len(list_ids(client, scope)) if count is None else count, listed, restricted
