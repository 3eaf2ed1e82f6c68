"""Machines that only read: one tenant's fault is its own, large files come in ranges, builders keep what they have."""

from __future__ import annotations

import json
import logging
import os
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from support.constants import configured
from support.s3_server import BUCKET, faulty
from support.waiting import wait_until

from citelock_scale.object_home.follower import FollowedFolder, StoreFollower, delete_tenants, to_answer_from_a_database
from citelock_scale.object_home.heads import Heads
from citelock_scale.object_home.home import ObjectHome
from citelock_scale.object_home.shared_folder import SharedFolder
from rag_serving.config.loading import Config
from rag_serving.shared_home import ObjectHomeError

LARGE = 20 << 20


def config_of(home: ObjectHome, tmp_path: Path) -> Config:
    store = dict(vars(home.settings))
    content = {
        "home": store.pop("url"),
        "object_store": {**store, "cache": str(home.home), "poll_s": 0.05},
        "tenants": {"acme": {}, "globex": {}},
        "sources": {
            key: {"kind": "files", "tenant": key, "path": str(tmp_path), "readers": "everyone"}
            for key in ("acme", "globex")
        },
    }
    return configured(content)


def publish(home: ObjectHome, tenant: str, generation: str, **more: bytes) -> None:
    """Put a generation of one file in force, and keep those before."""
    with home.writing(f"tenants/{tenant}"):
        folder = home.home / "tenants" / tenant
        (folder / "generations" / generation).mkdir(parents=True)
        (folder / "generations" / generation / "manifest.json").write_text(generation)
        (folder / "published.json").write_text(json.dumps({"current": generation}))
        for name, content in more.items():
            (folder / "generations" / generation / name).write_bytes(content)


def generations(home: ObjectHome, tenant: str) -> set[str]:
    return {path.parent.name for path in (home.home / "tenants" / tenant).glob("generations/*/manifest.json")}


def test_a_fault_of_one_tenant_is_its_own(machine: Any, tmp_path: Path) -> None:
    home, reader = machine("a"), machine("b")
    publish(home, "acme", "1")
    publish(home, "globex", "1")
    follower = StoreFollower(reader, config_of(reader, tmp_path), ["acme", "globex"])
    stored = home.objects.read("tenants/acme/head")
    home.objects.replace("tenants/acme/head", b"{}", stored.version)
    follower.fetch()
    assert generations(reader, "globex") == {"1"}
    assert follower.problem_of("globex") is None
    assert follower.problem_of("acme")
    assert not follower.is_away
    publish(home, "globex", "2")
    follower.fetch()
    assert generations(reader, "globex") == {"1", "2"}


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_a_large_generation_of_one_holds_up_no_other(machine: Any, s3: str, tmp_path: Path) -> None:
    home = machine("a")
    publish(home, "acme", "1", vectors=os.urandom(LARGE))
    publish(home, "globex", "1")
    with faulty(s3) as proxy:
        reader = machine("b", endpoint=proxy.url)
        proxy.fault = lambda _method, path: "slow" if "/acme/blobs/" in path else ""
        follower = StoreFollower(reader, config_of(reader, tmp_path), ["acme", "globex"])
        follower.follow()
        wait_until(lambda: generations(reader, "globex") == {"1"})
        assert not generations(reader, "acme"), "its vectors take three slow requests"
        follower.fetch()
        ranges = [one for one in proxy.asked if "/acme/blobs/" in one]
    assert generations(reader, "acme") == {"1"}
    large = max(set(ranges), key=ranges.count)
    assert ranges.count(large) == 3, "eight megabytes a request"
    content = (reader.home / "tenants/acme/generations/1/vectors").read_bytes()
    assert content == (home.home / "tenants/acme/generations/1/vectors").read_bytes()


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_a_range_that_fails_once_is_asked_for_again(machine: Any, s3: str, tmp_path: Path) -> None:
    home = machine("a")
    publish(home, "acme", "1", vectors=os.urandom(LARGE))
    with faulty(s3) as proxy:
        reader = machine("b", endpoint=proxy.url)
        failed: list[str] = []

        def once(_method: str, path: str) -> str:
            if "/blobs/" in path and len(failed) < 2:
                failed.append(path)
                return "500" if len(failed) == 1 else "cut"
            return ""

        proxy.fault = once
        follower = StoreFollower(reader, config_of(reader, tmp_path), ["acme"])
        follower.fetch()
    assert follower.problem is None
    assert len(failed) == 2
    assert generations(reader, "acme") == {"1"}


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_a_store_that_is_away_is_told_once_and_asked_again(
    machine: Any, s3: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = machine("a")
    publish(home, "acme", "1")
    publish(home, "globex", "1")
    with faulty(s3) as proxy:
        reader = machine("b", endpoint=proxy.url, retry_s=0)
        follower = StoreFollower(reader, config_of(reader, tmp_path), ["acme", "globex"])
        proxy.fault = lambda _method, _path: "500"
        with caplog.at_level(logging.ERROR):
            began = time.monotonic()
            for _ in range(3):
                follower.fetch()
        assert time.monotonic() - began < 10
        assert follower.problem_of("acme")
        assert follower.problem_of("globex")
        assert follower.is_away
        proxy.fault = lambda _method, _path: ""
        follower.fetch()
    assert follower.problem is None
    assert generations(reader, "acme") == generations(reader, "globex") == {"1"}
    assert len([one for one in caplog.records if "goes on answering" in one.message]) <= 4


def test_a_machine_that_builds_keeps_its_generations(machine: Any, tmp_path: Path) -> None:
    home, other, reader = machine("a"), machine("b"), machine("c")
    for name in ("1", "2", "3"):
        publish(home, "acme", name)
    follower = StoreFollower(home, config_of(home, tmp_path), ["acme"])
    follower.fetch()
    publish(other, "acme", "4")
    follower.fetch()
    assert generations(home, "acme") == {"1", "2", "3", "4"}
    reading = StoreFollower(reader, config_of(reader, tmp_path), ["acme"])
    reading.fetch()
    publish(home, "acme", "5")
    reading.fetch()
    publish(home, "acme", "6")
    reading.fetch()
    assert generations(reader, "acme") == {"5", "6"}


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_a_store_without_conditional_writes_is_refused(machine: Any, s3: str) -> None:
    with faulty(s3) as proxy:
        home = machine("a", endpoint=proxy.url)
        proxy.fault = lambda method, _path: "unconditional" if method == "PUT" else ""
        with pytest.raises(ObjectHomeError, match="conditional writes"):
            publish(home, "acme", "1")
    assert home.settings.url.startswith(f"s3://{BUCKET}")


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_what_was_fetched_before_a_fetch_ended_is_not_fetched_again(machine: Any, s3: str, tmp_path: Path) -> None:
    home = machine("a")
    publish(home, "acme", "1", first=os.urandom(1000), second=os.urandom(2000), third=os.urandom(3000))
    record = sha256(
        (home.home / "tenants/acme/published.json").read_bytes()
    ).hexdigest()  # is read to know what to fetch
    second = sha256((home.home / "tenants/acme/generations/1/second").read_bytes()).hexdigest()
    with faulty(s3) as proxy:
        reader = machine("b", endpoint=proxy.url, retry_s=0, parallel=1)
        proxy.fault = lambda _method, path: "500" if second in path else ""
        follower = StoreFollower(reader, config_of(reader, tmp_path), ["acme"])
        follower.fetch()
        waiting = reader.home / "tenants/acme/.fetched"
        assert follower.problem_of("acme")
        kept = {path.name for path in waiting.iterdir()}
        assert kept
        (waiting / "0123.part").write_bytes(b"half of a file, and then the process was killed")
        (waiting / ("0" * 64)).write_bytes(b"a file that nothing names any more")
        proxy.fault = lambda _method, _path: ""
        proxy.asked.clear()
        StoreFollower(reader, config_of(reader, tmp_path), ["acme"]).fetch()
        assert not [asked for asked in proxy.asked if any(digest in asked for digest in kept - {record})]
        assert [asked for asked in proxy.asked if second in asked]
    assert generations(reader, "acme") == {"1"}
    assert not waiting.exists()


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_a_file_that_this_machine_has_is_copied_and_a_damaged_one_is_fetched(
    machine: Any, s3: str, tmp_path: Path
) -> None:
    home, same, other = machine("a"), os.urandom(1000), os.urandom(1000)
    publish(home, "acme", "1", same=same, other=other)
    with faulty(s3) as proxy:
        reader = machine("b", endpoint=proxy.url)
        StoreFollower(reader, config_of(reader, tmp_path), ["acme"]).fetch()
        damaged = reader.home / "tenants/acme/generations/1/other"
        status = damaged.stat()
        damaged.write_bytes(bytes(1000))
        os.utime(damaged, ns=(status.st_atime_ns, status.st_mtime_ns))
        publish(home, "acme", "2", same=same, other=other)
        proxy.asked.clear()
        StoreFollower(reader, config_of(reader, tmp_path), ["acme"]).fetch()
    assert not [asked for asked in proxy.asked if sha256(same).hexdigest() in asked]
    assert [asked for asked in proxy.asked if sha256(other).hexdigest() in asked]
    folder = reader.home / "tenants/acme/generations/2"
    assert ((folder / "same").read_bytes(), (folder / "other").read_bytes()) == (same, other)


@pytest.mark.parametrize("error", [KeyError("number"), TypeError("not a mapping"), RecursionError("too deep")])
@pytest.mark.parametrize(
    ("target", "name"), [(SharedFolder, "fetch"), (Heads, "read_all"), (FollowedFolder, "is_older")]
)
@pytest.mark.parametrize("settings", ["file"], indirect=True)
def test_whatever_the_store_has_following_goes_on(
    machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: type, name: str, error: Exception
) -> None:
    home, reader = machine("a"), machine("b")
    publish(home, "acme", "1")
    follower = StoreFollower(reader, config_of(reader, tmp_path), ["acme"])

    def fail(*_: Any, **__: Any) -> None:
        raise error

    def is_told() -> bool:
        follower.follow()
        return type(error).__name__ in (follower.problem_of("acme") or "")

    def is_mended() -> bool:
        follower.follow()
        return follower.staleness("acme") is None

    with monkeypatch.context() as patch:
        patch.setattr(target, name, fail)
        wait_until(is_told)
    wait_until(is_mended)
    assert generations(reader, "acme") == {"1"}


def test_a_tree_that_is_none_is_a_problem_of_its_folder(machine: Any, tmp_path: Path) -> None:
    home, reader = machine("a"), machine("b")
    publish(home, "acme", "1")
    (name,) = [path for path, _, _ in home.objects.names("tenants/acme/") if "/trees/" in path]
    home.objects.replace(name, b"[]", home.objects.read(name).version)
    follower = StoreFollower(reader, config_of(reader, tmp_path), ["acme"])
    follower.fetch()
    assert "tree" in (follower.problem_of("acme") or "")
    assert follower.awaited("acme", has_older=False) is None


def test_generations_make_room_and_tenants_that_are_gone_are_deleted(machine: Any, tmp_path: Path) -> None:
    home = machine("a")
    publish(home, "acme", "1", vectors=bytes(5000))
    publish(home, "globex", "1", vectors=bytes(5000))
    reader = machine("b", cache_bytes=12_000)
    config = config_of(reader, tmp_path)
    StoreFollower(reader, config, ["acme", "globex"]).fetch()
    assert generations(reader, "acme") == generations(reader, "globex") == {"1"}
    publish(home, "acme", "2", vectors=os.urandom(5000))
    StoreFollower(reader, config, ["acme", "globex"]).fetch()
    assert (generations(reader, "acme"), generations(reader, "globex")) == ({"2"}, {"1"})
    delete_tenants(reader.home, {"acme"})
    assert generations(reader, "acme") == {"2"}
    assert not (reader.home / "tenants/globex").exists()
    delete_tenants(home.home, {"acme"})
    assert generations(home, "globex") == {"1"}, "this machine built it"


def test_files_of_generations_are_not_fetched_where_pages_are_in_a_database(machine: Any, tmp_path: Path) -> None:
    home, reader = machine("a"), machine("b")
    publish(home, "acme", "1", vectors=bytes(100))
    StoreFollower(reader, config_of(reader, tmp_path), ["acme"], to_answer_from_a_database).fetch()
    assert (reader.home / "tenants/acme/published.json").exists()
    assert not (reader.home / "tenants/acme/generations").exists()
