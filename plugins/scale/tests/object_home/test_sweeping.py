"""Objects of older states: deleted in time, none that is in force, and nobody is stopped by it."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.s3_server import faulty

from citelock_scale.object_home.follower import FollowedFolder
from citelock_scale.object_home.home import ObjectHome
from rag_serving.shared_home import HeldError, ObjectHomeError

NAME = "tenants/acme"
_NUMBERS = count()


def write(home: ObjectHome, **texts: str) -> None:
    with home.writing(NAME):
        (home.home / NAME).mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (home.home / NAME / name).write_text(text)


def texts(home: ObjectHome) -> dict[str, str]:
    return {path.name: path.read_text() for path in (home.home / NAME).iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("settings", ["file"], indirect=True)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(states=st.lists(st.dictionaries(st.sampled_from("abc"), st.text("xy", max_size=2), min_size=1), min_size=1))
def test_a_sweep_deletes_all_but_what_is_in_force(machine: Any, states: list[dict[str, str]]) -> None:
    number = next(_NUMBERS)
    home, reader = (machine(f"{name}{number}", url=f"{machine('a').settings.url}/{number}") for name in "ab")
    for state in states:
        write(home, **state)
    before = texts(home)
    found = home.sweep(NAME)
    assert home.listed(NAME).old == ()
    assert home.listed(NAME).objects == found.objects - len(found.old) == 2 + len(set(before.values()))
    reader.refresh(NAME)
    assert texts(reader) == before


def test_every_so_many_builds_sweep(machine: Any) -> None:
    home = machine("a", sweep_after=3)
    for number in range(12):
        write(home, **{"a.json": str(number)})
    found = home.listed(NAME)
    assert len(found.old) <= 2 * 4, "two objects for each of at most four states"
    never = machine("a", sweep_after=0)
    for number in range(12, 18):
        write(never, **{"a.json": str(number)})
    assert len(never.listed(NAME).old) == len(found.old) + 2 * 6


def test_objects_of_others_are_left(machine: Any) -> None:
    home = machine("a")
    write(home, **{"a.json": "1"})
    home.objects.create(f"{NAME}/notes/of-a-person.txt", b"keep me")
    home.objects.create("tenants/acme2/blobs/00/" + "0" * 64, b"another folder's")
    found = home.sweep(NAME)
    assert found.old == ()
    assert home.objects.read(f"{NAME}/notes/of-a-person.txt")
    assert home.objects.read("tenants/acme2/blobs/00/" + "0" * 64)


def test_a_folder_that_is_written_is_not_swept(machine: Any) -> None:
    home, other = machine("a"), machine("b")
    write(home, **{"a.json": "1"})
    write(home, **{"a.json": "2"})
    with home.writing(NAME), pytest.raises(HeldError):
        other.sweep(NAME)
    assert home.listed(NAME).old


def test_who_fetches_a_state_that_is_swept_gets_the_newest(machine: Any) -> None:
    home, reader = machine("a"), machine("b")
    write(home, **{"a.json": "1"})
    seen = reader.heads.read(NAME)
    write(home, **{"a.json": "2"})
    home.sweep(NAME)
    FollowedFolder(reader, NAME).fetch(seen)
    assert texts(reader) == {"a.json": "2"}


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_a_store_that_fails_at_deleting_stops_no_build(machine: Any, s3: str) -> None:
    with faulty(s3) as proxy:
        home = machine("a", endpoint=proxy.url, sweep_after=1, retry_s=0)
        for number in range(3):
            write(home, **{"a.json": str(number)})
        proxy.fault = lambda method, path: "500" if method in ("DELETE", "POST") or "list-type" in path else ""
        write(home, **{"a.json": "3"})
        with pytest.raises(ObjectHomeError):
            home.sweep(NAME)
        proxy.fault = lambda _method, _path: ""
        write(home, **{"a.json": "4"})
    reader = machine("b")
    reader.refresh(NAME)
    assert texts(reader) == {"a.json": "4"}


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_a_list_that_lies_deletes_nothing_in_force(machine: Any, s3: str) -> None:
    with faulty(s3) as proxy:
        home = machine("a", endpoint=proxy.url)
        write(home, **{"a.json": "1"})
        write(home, **{"a.json": "2"})
        proxy.fault = lambda _method, path: "empty list" if "list-type" in path else ""
        assert home.sweep(NAME).old == ()
        proxy.fault = lambda _method, _path: ""
        assert len(home.listed(NAME).old) == 2
