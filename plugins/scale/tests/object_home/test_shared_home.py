"""A home that machines share: what one wrote another has, one writes at a time, nothing altered is taken."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.constants import section_of
from support.s3_server import faulty

from citelock_scale.object_home.heads import take_lease
from citelock_scale.object_home.home import ObjectHome
from citelock_scale.object_home.shared_folder import FileFact, Tree, content_of, tree_of
from citelock_scale.object_home.writing import send
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.config.index import ObjectStore
from rag_serving.shared_home import HeldError, ObjectHomeError

NAME = "tenants/acme"
RACES = int(os.environ.get("CITELOCK_OBJECT_RACES", "5"))
KILLS = int(os.environ.get("CITELOCK_OBJECT_KILLS", "1"))
_PATHS = ["a.json", "b.parquet", "generations/1/x.npy", "generations/2/y.npy", "candidate/z", "cache/v.sqlite"]


def write(home: ObjectHome, files: dict[str, str | None]) -> None:
    for path, text in files.items():
        place = home.home / NAME / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            place.unlink(missing_ok=True)
        else:
            place.write_text(text)


def files(home: ObjectHome) -> dict[str, str]:
    folder = home.home / NAME
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_text() for name, path in found.items() if not name.startswith(".")}


@pytest.mark.parametrize("settings", ["s3", "file"], indirect=True)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from("ab"), st.dictionaries(st.sampled_from(_PATHS), st.none() | st.text("xyz", max_size=3))
        ),
        max_size=5,
    ),
    seed=st.integers(0, 2**32),
)
def test_machines_in_turn_have_what_was_written_last(
    machine: Any, steps: list[tuple[str, dict[str, str | None]]], seed: int
) -> None:
    """Random edits by two machines with homes of their own; what is in the cache is never deleted."""
    homes = {name: machine(f"{name}{seed}", lease_s=5) for name in "ab"}
    prefix = f"/run{seed}-{time.monotonic_ns()}"
    homes = {
        name: ObjectHome(home.settings.model_copy(update={"url": f"{home.settings.url}{prefix}"}), home.home)
        for name, home in homes.items()
    }
    wanted: dict[str, str] = {}
    for name, edits in steps:
        with homes[name].writing(NAME):
            found = {path: text for path, text in files(homes[name]).items() if not path.startswith("cache/")}
            assert found == {path: text for path, text in wanted.items() if not path.startswith("cache/")}
            write(homes[name], edits)
        wanted = files(homes[name])
    for home in homes.values():
        home.refresh(NAME)
        assert wanted.items() <= files(home).items()


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_what_did_not_change_is_not_sent_again(machine: Any, s3: str) -> None:
    with faulty(s3) as proxy:
        home = machine("a")
        home = ObjectHome(home.settings.model_copy(update={"endpoint": proxy.url}), home.home)
        with home.writing(NAME):
            write(home, {f"{number}.json": str(number) for number in range(20)})
        sent = sum(one.startswith("PUT") and "/blobs/" in one for one in proxy.asked)
        proxy.asked.clear()
        with home.writing(NAME):
            write(home, {"3.json": "other"})
        again = [one for one in proxy.asked if one.startswith("PUT") and "/blobs/" in one]
    assert sent == 20
    assert len(again) == 1


def test_a_writer_that_lives_keeps_others_out(machine: Any) -> None:
    first, second = machine("a"), machine("b")
    with first.writing(NAME):
        write(first, {"a.json": "1"})
        time.sleep(1.5)  # longer than a lease without a sign of life
        with pytest.raises(HeldError, match="another build"), second.writing(NAME):
            pass
        with first.writing(NAME):  # the same process goes on
            write(first, {"b.json": "2"})
    with second.writing(NAME):
        assert files(second) == {"a.json": "1", "b.json": "2"}


@pytest.mark.parametrize("settings", ["s3", "file"], indirect=True)
def test_one_that_stalled_shares_nothing_after_another_took_over(machine: Any) -> None:
    stalled, other = machine("a"), machine("b")
    with stalled.writing(NAME):
        write(stalled, {"a.json": "old"})
    lease = take_lease(stalled.heads, NAME, 1, 0)
    lease.stop()  # as a stopped process: no signs of life
    with other.writing(NAME, wait_s=5):
        write(other, {"a.json": "new"})
    folder = stalled.folder(NAME)
    write(stalled, {"a.json": "stale"})
    with pytest.raises(HeldError, match="took over"):
        lease.release(send(folder, lease))
    stalled.refresh(NAME)
    assert files(stalled) == {"a.json": "new"}


@pytest.mark.parametrize("settings", ["s3", "file"], indirect=True)
def test_of_two_that_publish_at_once_one_wins_and_is_whole(machine: Any) -> None:
    """Both take the folder as it is, write many files, and publish them: the loser gets an error."""
    for race in range(RACES):
        homes = {name: machine(f"{name}{race}", url=f"{machine('x').settings.url}/race{race}") for name in "ab"}
        told: dict[str, str] = {}
        barrier = threading.Barrier(2)

        def publish(name: str, homes: Any = homes, told: Any = told, barrier: Any = barrier) -> None:
            barrier.wait()
            try:
                with homes[name].writing(NAME):
                    write(homes[name], {f"{number}.json": name for number in range(8)} | {"current": name})
                    time.sleep(random.random() / 50)
                told[name] = "won"
            except HeldError as error:
                told[name] = str(error)

        threads = [threading.Thread(target=publish, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert "won" in told.values()
        reader = machine(f"reader{race}", url=homes["a"].settings.url)
        reader.refresh(NAME)
        found = files(reader)
        assert len(found) == 9
        (who,) = set(found.values())
        assert told[who] == "won"


_KILLED = """
import sys, time
from pathlib import Path
from rag_serving.config.index import ObjectStore
from citelock_scale.object_home.home import ObjectHome
ObjectStore.lease_s, ObjectStore.retry_s = 1, 5
home = ObjectHome(ObjectStore.model_validate_json(sys.argv[1]), Path(sys.argv[2]))
number = int(sys.argv[3])
while True:
    with home.writing("tenants/acme", wait_s=20):
        folder = home.home / "tenants/acme"
        folder.mkdir(parents=True, exist_ok=True)
        for part in range(6):
            (folder / f"{part}.json").write_text(f"{number}")
        (folder / "current").write_text(f"{number}")
    print(number, flush=True)
    number += 1
"""


@pytest.mark.parametrize("settings", ["s3", "file"], indirect=True)
def test_killed_writers_leave_a_whole_tree_in_force(machine: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    dice, number = random.Random(7), 1
    for kill in range(KILLS):
        chosen = ObjectStore(url=settings["url"], endpoint=settings.get("endpoint")).model_dump_json()
        arguments = [sys.executable, "-c", _KILLED, chosen, str(tmp_path / f"killed{kill % 2}"), str(number)]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert process.stdout
        shared = int(process.stdout.readline())
        time.sleep(dice.random() / 2)
        process.kill()
        rest = process.communicate()[0].split()
        shared = int(rest[-1]) if rest else shared
        reader = machine(f"reader{kill}")
        reader.refresh(NAME)
        found = files(reader)
        assert len(found) == 7
        (value,) = set(found.values())
        assert int(value) in (shared, shared + 1)  # killed after it was in force, before it said so
        number = int(value) + 1


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_an_error_of_the_store_loses_nothing_and_an_answer_that_is_lost_counts(machine: Any, s3: str) -> None:
    home = machine("a")
    dice = random.Random(3)
    with faulty(s3) as proxy:
        shaky = ObjectHome(home.settings.model_copy(update={"endpoint": proxy.url, "retry_s": 20}), home.home)
        faults = ["", "", "", "500", "cut", "cut after", "slow"]
        proxy.fault = lambda _method, _path: dice.choice(faults)
        for number in range(4):
            with shaky.writing(NAME, wait_s=20):
                write(shaky, {"a.json": str(number), f"{number}.json": "x"})
        proxy.fault = lambda method, _: "500" if method == "PUT" else ""
        quick = ObjectHome(shaky.settings.model_copy(update={"retry_s": 0}), home.home)
        with pytest.raises(ObjectHomeError, match="cannot be used"), quick.writing(NAME):
            pass
    reader = machine("b")
    reader.refresh(NAME)
    assert files(reader) == {"a.json": "3", **{f"{number}.json": "x" for number in range(4)}}


def test_bytes_that_are_not_what_their_name_says_are_refused(machine: Any, s3: str) -> None:
    home, other = machine("a"), machine("b")
    with home.writing(NAME):
        write(home, {"a.json": "first", "current": "1"})
    other.refresh(NAME)
    with home.writing(NAME):
        write(home, {"a.json": "second", "current": "2"})
    if home.settings.url.startswith("file://"):
        blob = Path(home.settings.url.removeprefix("file://"), NAME, "blobs")
        name = hashlib.sha256(b"second").hexdigest()
        next((blob / name[:2]).glob(f"{name}*")).write_bytes(b"sexond")
        with pytest.raises(ObjectHomeError, match="not what its name says"):
            other.refresh(NAME)
    else:
        endpoint = home.settings.endpoint or s3
        with faulty(endpoint) as proxy:
            proxy.fault = lambda method, path: "flip" if method == "GET" and "/blobs/" in path else ""
            address = proxy.url + urlsplit(endpoint).path
            lied = ObjectHome(other.settings.model_copy(update={"endpoint": address}), other.home)
            with pytest.raises(ObjectHomeError, match="not what its name says"):
                lied.refresh(NAME)
    assert files(other) == {"a.json": "first", "current": "1"}
    waiting = list((other.home / NAME).rglob(".fetched/*"))
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.name for path in waiting)


def test_heads_that_are_older_or_forged_are_refused(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    home, other = machine("a"), machine("b")
    with home.writing(NAME):
        write(home, {"a.json": "1"})
    stored = home.objects.read(f"{NAME}/head")
    with home.writing(NAME):
        write(home, {"a.json": "2"})
    other.refresh(NAME)
    newest = home.objects.read(f"{NAME}/head")
    assert stored
    assert newest
    home.objects.replace(f"{NAME}/head", stored.content, newest.version)
    with pytest.raises(ObjectHomeError, match="older state"):
        other.refresh(NAME)
    forged = {**json.loads(newest.content), "number": 99}
    home.objects.replace(f"{NAME}/head", json.dumps(forged).encode(), home.objects.read(f"{NAME}/head").version)  # type: ignore[union-attr]
    with pytest.raises(ObjectHomeError, match="altered"):
        other.refresh(NAME)
    assert files(other) == {"a.json": "2"}
    monkeypatch.setenv(SECRET_ENV, "another secret of that length")
    with pytest.raises(ObjectHomeError, match="the same on all machines"):
        machine("c").refresh(NAME)
    monkeypatch.delenv(SECRET_ENV)
    with pytest.raises(ObjectHomeError, match="openssl"):
        machine("d")


def test_a_tree_names_no_file_outside() -> None:
    for path in ("../x", "/etc/x", "a/../../x", "a//b", ".lock", "a/.b", "", "a\\b"):
        content = content_of(Tree({path: FileFact("0" * 64, 1)}, {}))
        with pytest.raises(ObjectHomeError, match="no folder of ours"):
            tree_of(content, hashlib.sha256(content).hexdigest())
    with pytest.raises(ObjectHomeError, match="altered"):
        tree_of(b"{}", "0" * 64)


def test_what_a_killed_build_left_is_kept_while_nobody_else_wrote(machine: Any) -> None:
    home, other = machine("a"), machine("b")
    with home.writing(NAME):
        write(home, {"a.json": "1"})
    write(home, {"candidate/part": "half", "cache/v.sqlite": "paid for"})
    with home.writing(NAME):
        assert files(home)["candidate/part"] == "half"
    with other.writing(NAME):
        write(other, {"a.json": "2"})
    write(home, {"candidate/more": "half", "cache/w.sqlite": "paid for"})
    with home.writing(NAME):
        found = files(home)
    assert "candidate/more" not in found
    assert found["cache/w.sqlite"] == "paid for"
    assert found["a.json"] == "2"


def test_a_store_that_is_away_is_named_in_one_line(tmp_path: Path) -> None:
    settings = section_of(ObjectStore, url="s3://b/p", endpoint="http://127.0.0.1:9", retry_s=0, timeout_s=2)
    with pytest.raises(ObjectHomeError) as told:
        ObjectHome(settings, tmp_path).refresh(NAME)
    assert "\n" not in str(told.value)
    assert "s3://b/p" in str(told.value)


def test_a_folder_is_erased_with_all_its_objects_and_no_other(machine: Any) -> None:
    home = machine("a")
    for name in (NAME, "tenants/acme2"):
        with home.writing(name):
            (home.home / name).mkdir(parents=True)
            (home.home / name / "a.json").write_text("1")
    erased = home.erase(NAME)
    assert (erased.number, erased.listed, erased.named, erased.unread) == (2, 2, 2, None)
    assert home.count(NAME) == 0
    assert home.heads.read(NAME).head.erased  # type: ignore[union-attr]
    assert home.count("tenants/acme2") == 3
    with home.writing(NAME):
        pass


def test_tenants_share_no_object(machine: Any) -> None:
    """A tenant's content must not be revealed by the cost of another's upload."""
    home = machine("a")
    for name in (NAME, "tenants/other"):
        with home.writing(name):
            (home.home / name).mkdir(parents=True)
            (home.home / name / "a.json").write_text("the same")
    listed = [path for path, _, _ in home.objects.names("tenants/")]
    assert sum("/blobs/" in path for path in listed) == 2
    assert all(path.startswith((f"{NAME}/", "tenants/other/")) for path in listed)
