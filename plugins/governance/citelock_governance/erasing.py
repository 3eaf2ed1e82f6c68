"""Erasing a tenant: listing its data, deleting it, verifying, and the signed proof of all three; forgetting a user.
Before anything is deleted, a signed record lists it. A killed process leaves the record, and the next one resumes from
it. The proof is the same record, once nothing is left."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from sqlalchemy import Connection, Engine, Table, delete, func, inspect, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql.elements import ColumnElement

from citelock_governance.api_keys import METADATA as API_KEYS
from citelock_governance.api_keys import KeyStore, event_of
from citelock_governance.audit.chain import head_of
from citelock_governance.audit.ledger import HEADS, Ledger
from citelock_governance.audit.ledger import METADATA as AUDIT
from rag_serving.artifacts.secret import SecretError
from rag_serving.artifacts.signed_files import read_signed, write_signed
from rag_serving.artifacts.store import Store, StoreError, remove_folder
from rag_serving.caching.memory import mark_forgotten
from rag_serving.cli.group import UsageError
from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import Config, load_config
from rag_serving.conversations.sessions import METADATA as SESSIONS_METADATA
from rag_serving.conversations.sessions import QUERIES, RESPONSES, SESSIONS
from rag_serving.escaping.redaction import RedactedError
from rag_serving.escaping.targets import for_json, for_terminal_line
from rag_serving.hooks import Event, record
from rag_serving.indexes.databases import PublishedError, RemoteError, open_database
from rag_serving.receipts.database_table import METADATA as RECEIPTS
from rag_serving.shared_home import shared_home
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import FORGOTTEN_METADATA as FORGOTTEN
from rag_serving.telemetry.tables import METADATA as TELEMETRY
from rag_serving.telemetry.tables import error_line, open_engine
from rag_serving.telemetry.usage import JOBS_METADATA as JOBS
from rag_serving.telemetry.usage import METADATA as BUDGETS


def command(
    tenant: Annotated[str, typer.Option("--tenant", help="The tenant.")],
    is_meant: Annotated[bool, typer.Option("--yes", help="Remove it; without this, only show what there is.")] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Remove everything that is kept of a tenant, with a signed proof. Nothing of it can be brought back.

    \b
    citelock erase --tenant acme          shows what there is
    citelock erase --tenant acme --yes

    Generations, in the database of `index` too, caches, tables of its sources, uploads, receipts, sessions, telemetry,
    keys, jobs and its audit log go. Stop its builds and servers before, take it out of the configuration afterwards. A
    run that was killed is finished by the next one.
    """
    settings = load_config(config)
    erasure = TenantErasure(settings, chosen_tenant(settings, tenant))
    if not is_meant and as_json:
        typer.echo(for_json({"tenant": tenant, "found": erasure.found()}))
        return
    if not is_meant:
        found = erasure.found()
        for name, counts in found["rows"].items():
            for table, count in counts.items():
                typer.echo(for_terminal_line(f"{name}, {table}: {count}"))
        for folder, size in found["folders"].items():
            typer.echo(for_terminal_line(f"{folder}: {size['files']} files, {size['bytes']} bytes"))
        raise UsageError(f"nothing was removed; --yes removes all of {tenant} for good")
    proof = erasure.erase()
    if as_json:
        typer.echo(for_json(proof))
        return
    rows = sum(count for counts in proof["removed"]["rows"].values() for count in counts.values())
    files = sum(size["files"] for size in proof["removed"]["folders"].values())
    typer.echo(for_terminal_line(f"{tenant}: removed {rows} rows and {files} files; the proof is {proof['file']}"))
    for line in proof["not_covered"]:
        typer.echo(for_terminal_line(f"not covered: {line}"), err=True)


def count_published(config: Config, tenant: str) -> dict[str, dict[str, int]]:
    """Return the contents of `index`'s database for a tenant: {database: {table: rows}}, or in Qdrant {database:
    {aliases, collections or points: count}}; empty ones are left out. Raises PublishedError: the database is
    unavailable."""
    if config.index.kind == "disk":
        return {}
    with _reported(tenant):
        counts = open_database(config).count(tenant)
    return {f"index ({config.index.kind})": counts} if counts else {}


def remove_published(config: Config, tenant: str) -> None:
    """Remove all that the database of `index` has of a tenant; none of another one. Raises PublishedError: it cannot be
    removed; the next try removes the rest."""
    if config.index.kind != "disk":
        with _reported(tenant):
            open_database(config).erase(Store(config.home), tenant)


@contextmanager
def _reported(tenant: str) -> Iterator[None]:
    try:
        yield
    except (RemoteError, SecretError) as error:
        raise PublishedError(f"what `index` has of {tenant} cannot be removed: {error}") from error


METADATAS = (TELEMETRY, RECEIPTS, SESSIONS_METADATA, AUDIT, API_KEYS, BUDGETS, JOBS, FORGOTTEN)
WITHOUT_TENANT = frozenset({QUERIES.name, RESPONSES.name, "embedding_workers", "forgotten"})
"""Tables without a tenant of their own: what was said in sessions, which goes with them, processes, and the marks that
something was forgotten, which have to outlive it."""


def tenant_tables() -> list[Table]:
    """Return the tables with rows of a tenant, parents last."""
    tables = [table for metadata in METADATAS for table in metadata.sorted_tables if "tenant" in table.c]
    return [RESPONSES, QUERIES, *tables]


def count_rows(connection: Connection, tenant: str) -> dict[str, int]:
    """Return how many rows of a tenant there are in each table that has any."""
    counts = {}
    for table in _existing(connection):
        query = select(func.count()).select_from(table).where(_of(table, tenant))
        if count := int(connection.execute(query).scalar_one()):
            counts[table.name] = count
    return counts


def delete_rows(connection: Connection, tenant: str) -> None:
    """Delete the rows of a tenant."""
    for table in _existing(connection):
        connection.execute(delete(table).where(_of(table, tenant)))


@contextmanager
def opened_for_erasing(engine: Engine) -> Iterator[Connection]:
    """Yield a connection in a transaction; in SQLite, deleted data is overwritten in the file as well."""
    is_sqlite = engine.dialect.name == "sqlite"
    with engine.connect() as connection:
        if is_sqlite:
            connection.exec_driver_sql("PRAGMA secure_delete=ON")
        yield connection
        connection.commit()
    if is_sqlite:
        with closing(engine.raw_connection()) as raw:
            raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _existing(connection: Connection) -> list[Table]:
    names = set(inspect(connection).get_table_names())
    needed = {QUERIES.name: SESSIONS.name, RESPONSES.name: QUERIES.name}
    return [table for table in tenant_tables() if {table.name, needed.get(table.name, table.name)} <= names]


def _of(table: Table, tenant: str) -> ColumnElement[bool]:
    sessions = select(SESSIONS.c.id).where(SESSIONS.c.tenant == tenant)
    if table is QUERIES:
        return QUERIES.c.session_id.in_(sessions)
    if table is RESPONSES:
        return RESPONSES.c.query_id.in_(select(QUERIES.c.id).where(QUERIES.c.session_id.in_(sessions)))
    mine: ColumnElement[bool] = table.c.tenant == tenant
    return mine


FOLDER = "erasures"
_EXPORT = re.compile(r"-\d{8}T\d{6}\.jsonl")  # behind a tenant's name, which may begin another one's
_NOT_COVERED = (
    "copies outside this installation: backups, exports, logs, and what people saved",
    "the run history of Dagster, which names sources, pages that failed and counts",
    "files and readers' catalogs that servers which run have opened: restart them",
)
_OF_DATABASES = {
    "disk": "generations in a database that `index` named earlier",
    "postgres": "what PostgreSQL keeps of deleted rows in its files until it vacuums them, and in its write-ahead log",
    "qdrant": "what Qdrant keeps of deleted points in its segments until it optimizes them, and its snapshots",
}

_OF_OBJECT_STORES = (
    "copies on other machines until they look at the store: servers do within two seconds, builds when they "
    "begin, machines that are off when they start; a machine that is taken out of use keeps its copy",
    "earlier versions of objects, where the bucket keeps versions",
    "objects that no state named, of builds that were killed, where the store did not list them; and what a build that "
    "runs elsewhere sends until it hears of the erasure, within ten seconds: `citelock home sweep` deletes both",
)


class EraseError(RedactedError):
    """A tenant cannot be erased; the message says why."""


class TenantErasure:
    """Erases one tenant of an installation."""

    def __init__(self, config: Config, tenant: str) -> None:
        self._config, self._tenant, self._store = config, tenant, Store(config.home)
        self._begun = config.home / FOLDER / f"{tenant}.begun.json"

    def found(self) -> dict[str, Any]:
        """Return the stored data of the tenant: rows by database and table, in Qdrant aliases, collections and points;
        files and bytes by folder. Raises EraseError, PublishedError: a database cannot be read."""
        rows = count_published(self._config, self._tenant)
        for name, engine in self._databases():
            with self._reported(engine), engine.connect() as connection:
                if counts := count_rows(connection, self._tenant):
                    rows[name] = counts
        home = shared_home(self._config)
        if home and (shared := {name: count for name in self._shared() if (count := home.count(name))}):
            rows[str(self._config.object_store.url)] = shared
        folders = {}
        for path in self._paths():
            files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
            size = sum(file.stat().st_size for file in files)
            folders[path.relative_to(self._store.home).as_posix()] = {"files": len(files), "bytes": size}
        return {"rows": rows, "folders": folders}

    def erase(self) -> dict[str, Any]:
        """Remove all of it, and return the proof, which is also written into the home folder. Raises EraseError,
        PublishedError: a database or a file cannot be removed; the next try removes the rest."""
        record = self._begin()
        remove_published(self._config, self._tenant)
        for _, engine in self._databases():
            with self._reported(engine), opened_for_erasing(engine) as connection:
                delete_rows(connection, self._tenant)
        home = shared_home(self._config)
        shared = {"object_store": {name: home.erase(name)._asdict() for name in self._shared()}} if home else {}
        try:
            for path in self._paths():
                if path.is_dir():
                    remove_folder(path)
                else:
                    path.unlink(missing_ok=True)
                if path.parent.name.startswith(".deleted-"):
                    path.parent.rmdir()
        except OSError as error:
            raise EraseError(f"{error.filename} cannot be removed ({error.strerror}); run the command again") from error
        try:
            mark_forgotten(self._config, self._tenant)  # servers that run drop answers and vectors
        except TelemetryError as error:
            raise EraseError(f"running servers cannot be told: {error}; run the command again") from error
        left = self.found()
        if left["rows"] or left["folders"]:
            raise EraseError(
                f"something of {self._tenant} was written while it was erased ({left}); stop its builds and servers, "
                "and run the command again"
            )
        finished = datetime.now(UTC)
        proof = {**record, **shared, "finished_at": finished.isoformat(timespec="seconds"), "left": left}
        file = self._begun.with_name(f"{self._tenant}-{finished:%Y%m%dT%H%M%S}.json")
        write_signed(self._store, file, proof)
        self._begun.unlink(missing_ok=True)
        return {**proof, "file": str(file)}

    def _begin(self) -> dict[str, Any]:
        """Return the record of the data, written before anything is removed, or that of a killed try."""
        if self._begun.exists():
            try:
                return read_signed(self._store, self._begun)
            except StoreError as error:
                raise EraseError(f"{error}; delete it to begin again") from None
        shared = _OF_OBJECT_STORES if self._config.object_store.url else ()
        record = {
            "tenant": self._tenant,
            "begun_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "removed": self.found(),
            "audit_head": self._audit_head(),
            "not_covered": [*_NOT_COVERED, _OF_DATABASES[self._config.index.kind], *shared],
        }
        write_signed(self._store, self._begun, record)
        return record

    def _audit_head(self) -> dict[str, Any] | None:
        """Return the last head of the tenant's audit log: it identifies an export."""
        for _, engine in self._databases():
            with self._reported(engine), engine.connect() as connection:
                if not inspect(connection).has_table(HEADS.name):
                    continue
                row = connection.execute(select(HEADS).where(HEADS.c.tenant == self._tenant)).mappings().first()
                if row is not None:
                    return head_of(dict(row)).payload()
        return None

    def _databases(self) -> Iterator[tuple[str, Engine]]:
        """Yield the database of the installation, and the file of the home from before there was one."""
        url, file = self._config.telemetry.url, self._store.serving_db()
        places: list[tuple[str, str | None]] = [("telemetry.url", url)] if url is not None else []
        places += [(file.name, None)] if file.is_file() else []
        for name, place in places:
            engine = open_engine(place, file)
            try:
                yield name, engine
            finally:
                engine.dispose()

    def _paths(self) -> list[Path]:
        audit = self._store.home / "audit"
        folders = [self._store.tenant(self._tenant), *map(self._store.source, self._config.sources_of(self._tenant))]
        # A removal that was killed has renamed its folder (`remove_folder`).
        renamed = [path for folder in folders for path in folder.parent.glob(f".deleted-*/{folder.name}")]
        paths = [*folders, *renamed, audit / f"{self._tenant}.json", audit / f"{self._tenant}.lock"]
        exports = sorted(audit.glob(f"{self._tenant}-*.jsonl"))
        paths += [path for path in exports if _EXPORT.fullmatch(path.name.removeprefix(self._tenant))]
        return [path for path in paths if path.exists()]

    def _shared(self) -> list[str]:
        """Return the tenant's folders in the object store of a shared home."""
        return [f"tenants/{self._tenant}", *(f"sources/{key}" for key in self._config.sources_of(self._tenant))]

    @contextmanager
    def _reported(self, engine: Engine) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            where = engine.url.render_as_string(hide_password=True)
            raise EraseError(f"the database {where} cannot be used ({error_line(error)})") from error


def forget_command(
    user: Annotated[str, typer.Option("--user", help="Account id or name, as the person asked under it.")],
    config: ConfigPath = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Delete a user's questions and feedback: receipts, sessions, telemetry; revoke the keys in the user's name; unlink
    the audit log from them.

    \b
    citelock forget --user ann

    Rows of the audit log stay, and verify, but their user and questions cannot be recovered. Receipts of older programs
    do not name the user; they are deleted after telemetry.retention_days. Running servers drop the tenant's answers and
    vectors from memory with the next question, those with a home of their own within two seconds.
    """
    from rag_serving.access.principals import Principal
    from rag_serving.artifacts.secret import derived_key
    from rag_serving.conversations.sessions import SessionStore
    from rag_serving.receipts.receipt import Secrecy
    from rag_serving.receipts.store import open_receipts
    from rag_serving.telemetry.events import RowBuilder
    from rag_serving.telemetry.tables import opened
    from rag_serving.telemetry.telemetry import KEY_PURPOSE
    from rag_serving.telemetry.writer import forget_user

    settings = load_config(config)
    name = chosen_tenant(settings, tenant)
    record(settings, name, Event("user.forgotten"))
    keys = _revoked(settings, name, user)
    url, database = settings.telemetry.url, Store(settings.home).serving_db()
    unlinked = rows = sessions = 0
    if url is not None or database.exists():
        with closing(Ledger(settings.home, url, name, settings.audit)) as ledger:  # the log may be switched off by now
            unlinked = ledger.forget(user)
    with closing(open_receipts(settings)) as store:
        receipts = store.forget(name, Secrecy(settings.home).asker(Principal(name, user)))
    if url is not None or database.exists():
        digest = RowBuilder(name, derived_key(settings.home, KEY_PURPOSE)).user_hash(user) or ""
        with opened(url, database) as engine:
            rows = forget_user(engine, name, digest)
        with closing(SessionStore(settings, name, lambda: datetime.now(UTC))) as stored:
            sessions = stored.forget(user)
    mark_forgotten(settings, name)
    if as_json:
        counts = {"receipts": receipts, "sessions": sessions, "telemetry": rows, "audit": unlinked, "keys": keys}
        typer.echo(json.dumps({"tenant": name, **counts}))
    else:
        told = f"{receipts} receipts, {sessions} sessions, {rows} rows of telemetry and feedback"
        also = [f"revoked {keys} keys"] * bool(keys) + ["unlinked the audit log"] * bool(unlinked)
        typer.echo("; ".join([f"{name}: deleted {told}", *also]))


def _revoked(settings: Config, tenant: str, user: str) -> int:
    """Return how many valid keys had the user's name; the name is removed from revoked ones, too."""
    count = 0
    with closing(KeyStore(settings)) as store:
        for key in store.list(tenant):
            if key.user != user:
                continue
            if key.revoked is None:
                record(settings, tenant, event_of("key.revoked", key))
                count += 1
            store.forget(key)
    return count
