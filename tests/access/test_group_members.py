"""Groups from the last sync: added to whoever the site says is in them, and to nobody on suspicion."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.recognized import recognized

from rag_serving.access.group_members import FILE, Memberships
from rag_serving.access.principals import Principal
from rag_serving.api.auth import Authenticator, Request
from rag_serving.artifacts.schema import GROUP_MEMBERS
from rag_serving.artifacts.signed_files import write_signed_table
from rag_serving.artifacts.store import Store, write_table
from rag_serving.config.loading import Config, parse_config

LIVE = {"kind": "confluence", "base_url": "https://wiki.example", "space": "ENG", "groups": True}


def config(home: Path, *sources: str, groups: str = "synced", auth: str = "tokens") -> Config:
    found = {key: {**LIVE, "tenant": "acme"} for key in sources} | {"theirs": {**LIVE, "tenant": "other"}}
    serving = {"groups": groups, "auth": auth}
    return parse_config({"home": str(home), "tenants": {"acme": {}, "other": {}}, "sources": found, "serving": serving})


def tell(home: Path, key: str, **members: str) -> None:
    """Write what a sync would: the users of each group, by a blank apart."""
    rows = [{"group": name, "user": user} for name, users in members.items() for user in [None, *users.split()]]
    write_signed_table(Store(home), home / "sources" / key / FILE, GROUP_MEMBERS.table([*rows]), GROUP_MEMBERS)


def groups(memberships: Memberships, user: str | None, tenant: str = "acme", *claimed: str) -> set[str]:
    return set(memberships.with_groups(Principal(tenant, user, frozenset(claimed))).groups)


def test_a_user_gets_the_groups_that_the_site_tells_beside_those_claimed(tmp_path: Path) -> None:
    tell(tmp_path, "eng", ops="ann bob", hq="ann")
    memberships = Memberships(config(tmp_path, "eng"))
    assert groups(memberships, "ann") == {"ops", "hq"}
    assert groups(memberships, "bob", "acme", "staff") == {"ops", "staff"}
    assert groups(memberships, "eve") == groups(memberships, None) == groups(memberships, "") == set()


def test_another_tenants_groups_are_not_added(tmp_path: Path) -> None:
    tell(tmp_path, "eng", ops="ann")
    tell(tmp_path, "theirs", secret="ann")
    memberships = Memberships(config(tmp_path, "eng"))
    assert groups(memberships, "ann") == {"ops"}
    assert groups(memberships, "ann", "other") == {"secret"}
    assert groups(memberships, "ann", "nowhere") == set()


def test_a_user_is_in_a_group_only_if_every_source_that_names_it_says_so(tmp_path: Path) -> None:
    tell(tmp_path, "eng", staff="ann bob", ops="bob", empty="ann")
    tell(tmp_path, "hr", staff="ann", hr="bob", empty="")
    memberships = Memberships(config(tmp_path, "eng", "hr"))
    assert groups(memberships, "ann") == {"staff"}
    assert groups(memberships, "bob") == {"ops", "hr"}


@pytest.mark.parametrize("damage", ["absent", "cut"])
def test_where_the_members_of_one_source_cannot_be_read_nobody_gets_a_group(tmp_path: Path, damage: str) -> None:
    tell(tmp_path, "eng", ops="ann")
    if damage == "cut":
        (tmp_path / "sources" / "hr").mkdir(parents=True)
        (tmp_path / "sources" / "hr" / FILE).write_bytes(b"PAR1")
    assert groups(Memberships(config(tmp_path, "eng", "hr")), "ann", "acme", "staff") == {"staff"}


def test_who_left_a_group_is_out_of_it_with_the_next_question(tmp_path: Path) -> None:
    tell(tmp_path, "eng", ops="ann")
    memberships = Memberships(config(tmp_path, "eng"))
    assert groups(memberships, "ann") == {"ops"}
    tell(tmp_path, "eng", ops="bob")
    os.utime(tmp_path / "sources" / "eng" / FILE, ns=(1, 1))
    assert groups(memberships, "ann") == set()


def test_by_default_only_claims_count(tmp_path: Path) -> None:
    tell(tmp_path, "eng", ops="ann")
    assert groups(Memberships(config(tmp_path, "eng", groups="claims")), "ann") == set()


def test_a_token_with_a_user_alone_is_given_the_users_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(tmp_path, "eng", ops="ann")
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"t1": {"tenant": "acme", "user": "ann"}}))
    principal = recognized(Authenticator(config(tmp_path, "eng")), Request(None, None, "Bearer t1"))
    assert principal == Principal("acme", "ann", frozenset({"ops"}))


def test_nobody_can_write_himself_into_a_group_without_the_secret(tmp_path: Path) -> None:
    tell(tmp_path, "eng", ops="ann")
    memberships = Memberships(config(tmp_path, "eng", "hr"))
    tell(tmp_path, "hr")
    assert groups(memberships, "ann") == {"ops"}
    file = tmp_path / "sources" / "eng" / FILE
    told = [{"group": "board", "user": user} for user in (None, "eve")]
    write_table(file, GROUP_MEMBERS.table(told), GROUP_MEMBERS)
    assert groups(memberships, "eve") == groups(memberships, "ann") == set()
    for name in (FILE, FILE.replace(".parquet", ".signed.json")):  # another source's, though signed
        (file.parent / name).write_bytes((tmp_path / "sources" / "hr" / name).read_bytes())
    assert groups(memberships, "ann") == set()
    tell(tmp_path, "eng", ops="ann")
    assert groups(memberships, "ann") == {"ops"}
