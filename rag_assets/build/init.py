"""`citelock init`: from five answers to a configuration, and what a first build of it would take. The file is written
at the end, whole: a source that cannot be read, or Ctrl-C, leaves what was there."""

from __future__ import annotations

import difflib
import fcntl
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from math import ceil
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import typer
import yaml

from rag_assets.monitoring.source_health import examine, without_secrets
from rag_assets.sources.base import SourceError
from rag_assets.sources.confluence.client import in_path
from rag_assets.sources.confluence.listing import DETAILS, LIST_LIMIT, SpaceScope, counted, list_ids
from rag_assets.sources.confluence.source import open_client
from rag_assets.sources.confluence.transport import AccessRefused, ServerFault
from rag_assets.sources.sites.site import opened_tree
from rag_assets.steps.readers import clauses, grants_of, in_words, space_readers
from rag_serving.access.principals import EVERYONE
from rag_serving.artifacts.store import rewrite, write_bytes
from rag_serving.cli.group import FAILED, UsageError
from rag_serving.cli.printing import Finding, finding_line
from rag_serving.config.loading import DEFAULT_CONFIG, Config, ConfigError, config_path, load_config, parse_config
from rag_serving.config.sources import Confluence, Files, SiteSource, Source
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


Given = Mapping[str, str | None]
"""What flags or a form say of a source, by their names."""


class ShapeError(ConfigError):
    """A file whose sources only a person can add to; `block` is what is to be put in."""

    def __init__(self, file: Path, block: str) -> None:
        super().__init__(
            f"{file} is not changed: put the lines of the source below its `sources:`, with the tenant they are for"
        )
        self.block = block


@dataclass(frozen=True)
class Edit:
    """A configuration file with one more source. `before`: what it said when it was read; None: there was none."""

    file: Path
    key: str
    before: str | None
    text: str

    @property
    def config(self) -> Config:
        """Return what the file is to say. Raises ConfigError: it is not allowed."""
        return parse_config(yaml.safe_load(self.text), str(self.file))

    @property
    def diff(self) -> str:
        """Return the change as a unified diff."""
        before, after, name = (self.before or "").splitlines(), self.text.splitlines(), str(self.file)
        return "\n".join(difflib.unified_diff(before, after, name, name, lineterm=""))

    @property
    def digest(self) -> str:
        """Return what is another one when the file was changed."""
        return sha256((self.before or "").encode()).hexdigest()

    def write(self) -> None:
        """Write the file whole; mode and owner of one that is there stay, and a link stays a link. Raises ConfigError:
        somebody changed it meanwhile, or it cannot be written."""
        try:
            if self.before is None and not self.file.exists():
                write_bytes(self.file, self.text.encode())
                return
            with self.file.open("rb") as there:
                fcntl.flock(there, fcntl.LOCK_EX)  # of two that add a source, the second sees what the first wrote
                if self.before is None or self.file.read_bytes() != self.before.encode():
                    raise ConfigError(f"{self.file} was changed meanwhile, and is left as it is: try again")
                rewrite(self.file.resolve(), self.text.encode())
        except OSError as error:
            raise ConfigError(f"{self.file} cannot be written ({error.strerror})") from None


def _answer(asks: bool, flag: str, given: str | None, question: str, default: str | None = None) -> str:
    """Return an answer in one line: as a flag gave it, as a person types it, or the default. Raises UsageError: there
    is none, or it has a character that no name has."""
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
    key: Annotated[str | None, typer.Option("--key", help="Key of the source; default: by space or folder.")] = None,
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
    given = {
        "kind": kind, "url": url, "space": space, "path": path, "readers": readers, "token_env": token_env,
        "user_env": user_env, "schedule": schedule, "key": key,
    }  # fmt: skip
    chosen, source = source_of(given, asks)
    default = str(config_path())
    file = Path(_answer(asks, "--config", str(config) if config else None, "File to write", default))
    try:
        edit = edit_of(file, key_of(given, chosen, source), chosen, source)
    except ShapeError as error:
        typer.echo(for_terminal(error.block.rstrip("\n")))
        raise ConfigError(str(error)) from None
    finding, extent = look_at(edit.config, edit.key)
    typer.echo(finding_line(finding))
    for line in extent.lines() if extent else ():
        typer.echo(f"      {for_terminal(line)}")
    if edit.before is not None:
        typer.echo(for_terminal(edit.diff))
    if not _may_write(asks, file, finding.state != "fail", edit.before is None or force):
        raise typer.Exit(FAILED)
    edit.write()
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


def source_of(given: Given, asks: bool = False) -> tuple[str, dict[str, Any]]:
    """Return which kind of source is meant, and what the file says of it. `asks`: a person answers what is not given.
    Raises UsageError: something is missing, or cannot be used."""
    kind = _answer(asks, "--kind", given.get("kind"), "What is it: confluence, docs or files")
    if kind not in _KINDS:
        raise UsageError(f"--kind is confluence, docs or files, not {kind!r}")
    if kind == "confluence":
        source = _confluence(asks, given)
    else:
        source = {"path": _answer(asks, "--path", given.get("path"), "Folder or zip")}
        source |= {"base_url": _address(url)} if (url := given.get("url")) else {}
        source["readers"] = _readers(asks, given.get("readers"), None)
    usual = "*/15 * * * *" if kind == "confluence" else "none"
    ticks = _answer(asks, "--schedule", given.get("schedule"), "Sync by cron (UTC), or none", usual)
    return kind, source | ({} if ticks == "none" else {"schedule": ticks})


def _confluence(asks: bool, given: Given) -> dict[str, Any]:
    address = _answer(
        asks, "--url", given.get("url"), "Address of the Confluence, such as https://acme.atlassian.net/wiki"
    )
    page = _PAGE_ADDRESS.fullmatch(address)  # of a page or a space, as a browser shows it
    address = _address(page[1] if page else address).rstrip("/")
    is_cloud = (urlsplit(address).hostname or "").endswith(".atlassian.net")
    if is_cloud and not urlsplit(address).path:
        address += "/wiki"
    key = _answer(asks, "--space", given.get("space"), "Key of the space", page[2] if page else None)
    who = _readers(asks, given.get("readers"), "from_source")
    source: dict[str, Any] = {"base_url": address, "space": key, "readers": who}
    question = "Environment variable that has the token, or none"
    token = _answer(asks, "--token-env", given.get("token_env"), question, "CONFLUENCE_TOKEN")
    if token == "none":
        return source
    auth = {"kind": "bearer", "token_env": token}
    if is_cloud or given.get("user_env"):
        name = _answer(
            asks, "--user-env", given.get("user_env"), "Environment variable that has the user", "CONFLUENCE_USER"
        )
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


def key_of(given: Given, kind: str, source: dict[str, Any]) -> str:
    """Return the key that somebody chose, or one by the space or folder."""
    return given.get("key") or _key(source.get("space") or Path(source["path"]).name, kind)


def _key(name: str, kind: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-_")[:60] or kind


def _block(key: str, kind: str, tenant: str, source: dict[str, Any]) -> str:
    """Return the source in YAML, indented by two; every answer is one scalar."""
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


def edit_of(file: Path, key: str, kind: str, source: dict[str, Any], tenant: str | None = None) -> Edit:
    """Return a file with one more source on top of its sources; everything else stays as it is. `tenant`: whose it is;
    None: the only one's. Raises UsageError: the file has such a key. Raises ShapeError: only a person can put it in.
    Raises ConfigError: the file is not usable, before or after."""
    if not file.exists():
        return Edit(file, key, None, _new_file(file, key, kind, source))
    settings, before = load_config(file), file.read_bytes().decode()
    if key in settings.sources:
        raise UsageError(f"{file} has a source {key!r} already: give another one with --key, or edit it there")
    known, tenants = yaml.safe_load(before) or {}, [tenant] if tenant else list(settings.tenants)
    block = _block(key, kind, tenants[0] if len(tenants) == 1 else "TENANT", source)
    text = re.sub(r"^sources:[ \t]*(#.*)?\n", lambda line: line[0] + block, before, count=1, flags=re.MULTILINE)
    wanted = {**known, "sources": {**(known.get("sources") or {}), **yaml.safe_load(block)}}
    with suppress(yaml.YAMLError):
        if len(tenants) == 1 and yaml.safe_load(text) == wanted:
            return Edit(file, key, before, text)
    raise ShapeError(file, block)


@dataclass(frozen=True)
class Extent:
    """How much a source has, who may read it, and what a first build takes. `restricted`: of `listed` pages those that
    not all of `readers` may read."""

    pages: int
    readers: str
    listed: int
    restricted: int

    @property
    def minutes(self) -> int:
        return ceil(self.pages * _CHUNKS_PER_PAGE / _CHUNKS_PER_S / 60)

    @property
    def megabytes(self) -> int:
        return ceil(self.pages * _CHUNKS_PER_PAGE * _KB_PER_CHUNK / 1000)

    def lines(self) -> Iterator[str]:
        """Yield it in words."""
        narrower = f"; {self.restricted:,} of the first {self.listed:,} are restricted further" if self.listed else ""
        yield f"{self.pages:,} page{'s' * (self.pages != 1)}, readable for {self.readers}{narrower}"
        yield f"a first build takes about {self.minutes:,} min and {self.megabytes:,} MB"


def look_at(config: Config, key: str) -> tuple[Finding, Extent | None]:
    """Return whether a source can be read, and what it has."""
    source = config.sources[key]
    one = config.model_copy(update={"sources": {key: source}})
    found = next(finding for finding in examine(one) if finding.name == f"source {key}")
    try:
        return found, None if found.state == "fail" else _extent(source, key)
    except SourceError as error:
        return Finding(found.name, "fail", without_secrets(str(error), source)), None


def _extent(source: Source, key: str) -> Extent:
    permissions, count, listed, restricted = None, 0, 0, 0
    if isinstance(source, Confluence):
        with open_client(source) as client:
            scope = SpaceScope(source.space)
            params = {"spaceKey": source.space, "type": "page", "limit": LIST_LIMIT, "expand": DETAILS}
            found: int | None = None
            with suppress(AccessRefused, ServerFault):
                for entry in islice(client.collect("rest/api/content", params), _LISTED):
                    listed += 1
                    restricted += grants_of(entry).own != EVERYONE
                found = counted(client, scope) if listed == _LISTED else listed
            count = len(list_ids(client, scope)) if found is None else found
            if source.readers == "from_source":
                answer = client.get(f"rest/api/space/{in_path(source.space)}", {"expand": "permissions"})
                permissions = answer.get("permissions")
    elif isinstance(source, Files | SiteSource) and source.path:
        with opened_tree(source.path, key, source.max_file_bytes) as tree:
            count = sum(kind_by_name(name) is not None for name in tree.names)
    return Extent(count, in_words(clauses(space_readers(source.readers, permissions))), listed, restricted)
