"""What a store may have or say: whatever it is, one line tells of it, and nothing that was shared is lost."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.s3_server import faulty

from citelock_scale.object_home.follower import FollowedFolder
from citelock_scale.object_home.home import ObjectHome
from citelock_scale.object_home.shared_folder import FileFact, Tree, content_of, tree_of
from rag_serving.artifacts.secret import FIELD, canonical, signature_of
from rag_serving.shared_home import ObjectHomeError

NAME = "tenants/acme"
_NUMBERS = count()
_DIGESTS = st.sampled_from(["0" * 64, "f" * 64, "0" * 63, "x" * 64])
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | _DIGESTS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=8), values, max_size=3),
    max_leaves=8,
)
_FACTS = st.dictionaries(st.text(max_size=8), st.lists(_DIGESTS | st.integers() | _ANYTHING, max_size=3), max_size=3)
_TREES = st.fixed_dictionaries(
    {},
    optional={
        "format": st.sampled_from([1, 2]) | _ANYTHING,
        "files": _FACTS | _ANYTHING,
        "editions": st.dictionaries(st.text(max_size=8) | st.just("0" * 16), _ANYTHING, max_size=2) | _ANYTHING,
        "edition": st.just("0" * 16) | _ANYTHING,
        "before": _DIGESTS | _ANYTHING,
    },
)


@settings(max_examples=300, deadline=None)
@given(value=_TREES | _ANYTHING)
def test_a_tree_is_one_or_is_refused_in_one_line(value: Any) -> None:
    content = json.dumps(value).encode()
    try:
        tree = tree_of(content, hashlib.sha256(content).hexdigest())
    except ObjectHomeError as error:
        told = str(error)
    else:
        told, again = "", content_of(tree)
        assert tree_of(again, hashlib.sha256(again).hexdigest()).files == tree.files
    assert "\n" not in told


def test_trees_that_are_deep_huge_or_not_text_are_refused() -> None:
    fact = ["0" * 64, 1]
    for content in (
        b"[" * 100_000,
        b"\xff\xfe",
        b"",
        canonical({"format": 2, "files": {"a": fact, "a/b": fact}}),
        canonical({"format": 2, "files": {"a": ["0" * 64, 1 << 60]}}),
        canonical({"format": 2, "files": {"a": ["0" * 64, -1]}}),
        canonical({"format": 2, "files": {"a": ["0" * 64, True]}}),
        canonical({"format": 2, "files": {"a" * 300: fact}}),
        b'{"format": 2, "files": {"\\ud800": ["' + b"0" * 64 + b'", 1]}}',
    ):
        with pytest.raises(ObjectHomeError):
            tree_of(content, hashlib.sha256(content).hexdigest())


def test_a_tree_from_before_there_were_editions_is_read() -> None:
    content = canonical({"format": 1, "files": {"a": ["0" * 64, 1]}})
    tree = tree_of(content, hashlib.sha256(content).hexdigest())
    assert tree == Tree({"a": FileFact("0" * 64, 1)}, {})
    assert tree.blob(NAME, "0" * 64) == f"{NAME}/blobs/00/{'0' * 64}"


@pytest.mark.parametrize("settings", ["file"], indirect=True)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fields=st.dictionaries(st.sampled_from([*"xy", "folder", "tree", "number", "erased", "format"]), _ANYTHING))
def test_a_signed_head_of_wrong_types_is_refused_in_one_line(machine: Any, fields: dict[str, Any]) -> None:
    home = machine("a")
    name = f"tenants/t{next(_NUMBERS)}"
    content = {"format": 2, "folder": name, "tree": None, "number": 0, **fields}
    try:
        signed = {**content, FIELD: signature_of(content, home.home, "object home")}
    except UnicodeEncodeError:
        return
    home.objects.create(f"{name}/head", json.dumps(signed).encode())
    told = ""
    try:
        seen = home.heads.read(name)
    except ObjectHomeError as error:
        told = str(error)
    else:
        assert seen
        assert isinstance(seen.head.number, int)
    assert "\n" not in told


def test_a_head_that_is_huge_or_no_json_is_refused(machine: Any) -> None:
    home = machine("a")
    for number, content in enumerate((b"", b"[]", b"[" * 60_000, b"{}" * 100_000, b"\xff")):
        home.objects.create(f"tenants/t{number}/head", content)
        with pytest.raises(ObjectHomeError) as told:
            home.heads.read(f"tenants/t{number}")
        assert "\n" not in str(told.value)


def write(home: ObjectHome, texts: dict[str, str]) -> None:
    with home.writing(NAME, wait_s=20):
        (home.home / NAME).mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (home.home / NAME / name).write_text(text)


def texts(home: ObjectHome) -> dict[str, str]:
    return {
        path.name: path.read_text() for path in (home.home / NAME).iterdir() if path.is_file() and path.name[0] != "."
    }


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
@pytest.mark.parametrize(("every", "lie"), [(2, "empty list"), (3, "first of list"), (5, "old list")])
def test_a_store_that_fails_and_lies_loses_nothing(machine: Any, s3: str, every: int, lie: str) -> None:
    """Every so many requests fail, half of them without an answer; lists are empty, partial, or of an older state."""
    fresh = machine("fresh")
    with faulty(s3) as proxy:
        home = machine("a", endpoint=proxy.url, retry_s=0, sweep_after=2, lease_s=0.5)
        reader = machine("b", endpoint=proxy.url, retry_s=0)
        asked = count(1)

        def fault(_method: str, path: str) -> str:
            number = next(asked)
            if number % every == 0:
                return ("500", "cut", "cut after")[number // every % 3]
            return lie if "list-type" in path else ""

        def follow() -> None:
            if seen := reader.heads.read(NAME):
                FollowedFolder(reader, NAME).fetch(seen)

        possible: list[dict[str, str]] = [{}]
        wanted: dict[str, str] = {}
        for number in range(8):
            proxy.fault = fault
            wanted = {**wanted, "state": str(number), f"file{number % 3}": str(number)}
            try:
                write(home, wanted)
                possible = [wanted]
            except ObjectHomeError:
                possible.append(wanted)  # the answer may be what was lost
            for action in (follow, partial(home.sweep, NAME, 5), partial(home.repair, NAME, wait_s=5)):
                with suppress(ObjectHomeError):
                    action()
            proxy.fault = lambda _method, _path: ""
            if fresh.heads.read(NAME) is None:
                continue
            fresh.refresh(NAME)
            assert texts(fresh) in possible
        write(home, {"state": "last"})
        fresh.refresh(NAME)
    assert texts(fresh) == texts(home)
    assert texts(fresh)["state"] == "last"
    assert fresh.repair(NAME, dry_run=True, wait_s=5).lost == ()
