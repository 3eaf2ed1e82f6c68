"""The groups of a caller, as of the last sync with Confluence. Nothing is added on suspicion, nor from a table that
this installation did not sign. A source whose members are unknown adds no group and takes away those of the others of
its tenant; a user is in a group only if every source with that group agrees."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import GROUP_MEMBERS
from rag_serving.artifacts.signed_files import read_signed_table
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.config.sources import Confluence

FILE = "group_members.parquet"

_log = logging.getLogger(__name__)
_Stamp = tuple[tuple[str, int], ...]


class Memberships:
    """The synchronized groups of every tenant; empty unless `serving.groups` is `synced`. Safe to use from threads."""

    def __init__(self, config: Config) -> None:
        self._store = Store(config.home)
        synced = config.serving.groups == "synced"
        self._files: dict[str, list[Path]] = {tenant: [] for tenant in config.tenants}
        for key, source in config.sources.items() if synced else ():
            if isinstance(source, Confluence) and source.groups:
                self._files[source.tenant].append(self._store.source(key) / FILE)
        self._read: dict[str, tuple[_Stamp, Mapping[str, frozenset[str]]]] = {}

    def with_groups(self, principal: Principal) -> Principal:
        """Return the principal with the groups that its user is in."""
        if not principal.user or not self._files.get(principal.tenant):
            return principal
        return replace(principal, groups=principal.groups | self._groups_of(principal.tenant, principal.user))

    def _groups_of(self, tenant: str, user: str) -> frozenset[str]:
        """Return the user's groups in the tables as they are now: a sync takes effect with the next question."""
        files = self._files[tenant]
        try:
            stamp = tuple((str(file), file.stat().st_mtime_ns) for file in files)
            if tenant not in self._read or self._read[tenant][0] != stamp:
                self._read[tenant] = (
                    stamp,
                    groups_by_user([read_signed_table(self._store, file, GROUP_MEMBERS) for file in files]),
                )
        except (StoreError, OSError) as error:
            _log.error("members of groups cannot be read, so nobody is in one by them: %s", error)
            self._read.pop(tenant, None)
            return frozenset()
        return self._read[tenant][1].get(user, frozenset())


def groups_by_user(tables: list[pa.Table]) -> dict[str, frozenset[str]]:
    """Return each user's groups, without those whose sources disagree. `tables`: GROUP_MEMBERS of each source."""
    members: dict[str, set[str]] = {}
    for table in tables:
        listed: dict[str, set[str]] = {}
        for group, user in zip(table["group"].to_pylist(), table["user"].to_pylist(), strict=True):
            listed.setdefault(group, set()).update([user] if user else [])
        for group, users in listed.items():
            members[group] = members[group] & users if group in members else users
    by_user: dict[str, set[str]] = {}
    for group, users in members.items():
        for user in users:
            by_user.setdefault(user, set()).add(group)
    return {user: frozenset(groups) for user, groups in by_user.items()}
