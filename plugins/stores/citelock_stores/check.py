"""What `citelock doctor` finds in the database of `index`.

Belongs here: looking at the tenants' generations there. Does not belong here: their folders (`cli.doctor`).
"""

from __future__ import annotations

from collections.abc import Iterator

from citelock_stores.remote.catalogs import Catalogs
from citelock_stores.remote.generation import DatabaseGeneration
from citelock_stores.remote.opening import open_store
from citelock_stores.remote.protocol import RemoteStore
from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import SecretError
from rag_serving.cli.finding import Finding
from rag_serving.config.loading import Config, ConfigError
from rag_serving.indexes.databases import RemoteError


def examine(config: Config) -> Iterator[Finding]:
    """Yield what `in_database` finds for each tenant: the entry point `index` of `citelock.checks`."""
    if config.index.kind != "disk":
        yield from (in_database(config, tenant) for tenant in config.tenants)


def in_database(config: Config, tenant: str) -> Finding:
    """Return whether questions of a tenant can be answered from the database, and what is not as it should be there."""
    name, kind = f"index of {tenant}", config.index.kind
    try:
        store = open_store(config)
    except (ConfigError, SecretError) as error:
        return Finding(name, "fail", str(error), "see docs/configuration.md, `index`")
    try:
        return _looked_at(name, config, tenant, store)
    except RemoteError as error:
        detail, _, mend = str(error).rpartition("; ")
        return Finding(
            name, "fail", f"{kind}: {detail or mend}", mend if detail else "see `index` in the configuration"
        )
    finally:
        store.close()


def _looked_at(name: str, config: Config, tenant: str, store: RemoteStore) -> Finding:
    current = store.current(tenant)
    if current is None:
        return Finding(name, "warn", f"{config.index.kind}: nothing is published there yet", "run `citelock build`")
    generation = DatabaseGeneration(config.home, tenant, current, store.open(tenant, current), Catalogs(0))
    readable = len(generation.for_reader(Principal(tenant)))
    detail = f"{config.index.kind}: generation {current}, {len(generation)} chunks"
    detail += "" if readable == len(generation) else f" ({readable} of them readable for everyone)"
    if faults := store.faults(tenant):
        fault, _, mend = faults[0].rpartition("; ")
        return Finding(name, "warn", f"{detail}; {fault or mend}", mend if fault else "run `citelock build`")
    return Finding(name, "ok", detail)
