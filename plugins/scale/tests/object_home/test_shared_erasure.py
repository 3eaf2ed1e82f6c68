"""Erasing a folder of a shared home: every machine deletes its copy, and no list of the store is believed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.command_line import CITELOCK
from support.s3_server import faulty

from citelock_governance.erasing import TenantErasure
from citelock_scale.object_home.follower import FollowedFolder
from citelock_scale.object_home.home import ObjectHome
from rag_serving.artifacts.store import read_json
from rag_serving.config.loading import load_config
from rag_serving.shared_home import HeldError, ObjectHomeError

NAME = "tenants/acme"


def publish(home: ObjectHome, generation: str, name: str = NAME) -> None:
    with home.writing(name):
        folder = home.home / name
        (folder / "generations" / generation).mkdir(parents=True, exist_ok=True)
        (folder / "generations" / generation / "manifest.json").write_text(generation)
        (folder / "published.json").write_text(json.dumps({"current": generation}))


def files(home: ObjectHome, name: str = NAME) -> list[str]:
    return sorted(path.name for path in (home.home / name).rglob("*") if path.is_file() and path.name != ".lock")


def follow(home: ObjectHome, name: str = NAME) -> FollowedFolder:
    folder = FollowedFolder(home, name)
    seen = home.heads.read(name)
    assert seen
    folder.fetch(seen)
    return folder


def test_readers_and_builders_delete_what_another_machine_erased(machine: Any) -> None:
    home, builder, reader = machine("a"), machine("b"), machine("c")
    publish(home, "1")
    publish(builder, "2")
    publish(home, "kept", "tenants/acme2")
    follow(reader)
    follow(reader, "tenants/acme2")
    (reader.home / NAME / "chroma").mkdir()
    (reader.home / NAME / "chroma" / "index.bin").write_text("of this machine")
    assert files(reader)
    home.erase(NAME)
    folder = follow(reader)
    builder.refresh(NAME)
    assert files(reader) == files(builder) == []
    for one in (reader, builder):
        notes = "".join(path.read_text() for path in (one.home / ".object-home").glob("tenants~acme.*"))
        assert "manifest" not in notes
    assert files(reader, "tenants/acme2") == ["manifest.json", "published.json"]
    assert not folder.is_behind(reader.heads.read(NAME))


def test_a_tenant_that_is_built_again_is_fetched_everywhere(machine: Any) -> None:
    home, builder, reader = machine("a"), machine("b"), machine("c")
    for generation in ("1", "2", "3"):
        publish(home, generation)
    builder.refresh(NAME)
    follow(reader)
    home.erase(NAME)
    publish(home, "new")
    follow(reader)
    builder.refresh(NAME)
    assert files(reader) == files(builder) == ["manifest.json", "published.json"]
    assert not list((builder.home / NAME / "generations").glob("[123]"))
    publish(builder, "newer")
    home.refresh(NAME)
    assert (home.home / NAME / "generations/newer/manifest.json").exists()


def test_an_old_state_is_not_put_back_after_an_erasure(machine: Any) -> None:
    home, reader = machine("a"), machine("b")
    publish(home, "1")
    old = home.objects.read(f"{NAME}/head")
    follow(reader)
    home.erase(NAME)
    follow(reader)
    newest = home.objects.read(f"{NAME}/head")
    home.objects.replace(f"{NAME}/head", old.content, newest.version)
    for one in (home, reader):
        with pytest.raises(ObjectHomeError, match="older state"):
            one.refresh(NAME)
        assert one.folder(NAME).seen.erased


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
@pytest.mark.parametrize("lie", ["empty list", "first of list"])
def test_a_list_that_lies_leaves_nothing_that_a_state_named(machine: Any, s3: str, lie: str) -> None:
    home = machine("a", sweep_after=0)
    for generation in ("1", "2", "3"):
        publish(home, generation)
    (home.home / NAME / "generations/1/manifest.json").unlink()
    publish(home, "4")
    with faulty(s3) as proxy:
        lied = machine("b", endpoint=proxy.url)
        proxy.fault = lambda _method, path: lie if "list-type" in path else ""
        assert lied.count(NAME) > 8
        erased = lied.erase(NAME)
        assert erased.listed <= 1
        assert erased.named >= 4 + 8, "four trees and the contents of all of them"
        assert lied.count(NAME) == 0
    assert [name for name, _, _ in home.objects.names(f"{NAME}/")] == [f"{NAME}/head"]


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_an_erasure_that_is_cut_off_goes_on(machine: Any, s3: str) -> None:
    """The head says erased at once; the head's tree locates the rest, though the store lists nothing."""
    home, reader = machine("a"), machine("b")
    publish(home, "1")
    publish(home, "2")
    follow(reader)
    with faulty(s3) as proxy:
        shaky = ObjectHome(home.settings.model_copy(update={"endpoint": proxy.url, "retry_s": 0}), home.home)
        lists = ["list-type"]
        proxy.fault = lambda method, path: (
            "empty list" if lists[0] in path else "500" if method in ("DELETE", "POST") else ""
        )
        with pytest.raises(ObjectHomeError):
            shaky.erase(NAME)
        follow(reader)
        assert files(reader) == []
        assert shaky.count(NAME) > 0
        proxy.fault = lambda _method, path: "empty list" if lists[0] in path else ""
        assert shaky.erase(NAME).named > 0
    assert home.count(NAME) == 0
    assert home.erase(NAME).number == home.erase(NAME).number, "once more changes nothing"


def test_a_build_that_runs_elsewhere_ends_and_leaves_nothing(machine: Any) -> None:
    home, builder = machine("a"), machine("b")
    publish(home, "1")

    def build() -> None:
        with builder.writing(NAME):
            (builder.home / NAME / "secret.json").write_text("of the tenant")
            home.erase(NAME)

    with pytest.raises(HeldError, match="erased it"):
        build()
    assert home.count(NAME) == 0
    follow(builder)
    assert files(builder) == []


def test_a_tree_that_was_altered_is_named_and_the_listed_objects_go(machine: Any) -> None:
    home, other = machine("a"), machine("b")
    publish(home, "1")
    tree = home.heads.read(NAME).head.tree
    stored = home.objects.read(f"{NAME}/trees/{tree}")
    home.objects.replace(f"{NAME}/trees/{tree}", b"{}", stored.version)
    erased = other.erase(NAME)
    assert erased.unread == tree
    assert erased.listed == 3
    assert other.count(NAME) == 0


def test_what_was_never_shared_gets_no_head(machine: Any) -> None:
    home = machine("a")
    assert home.erase(NAME) == (0, 0, 0, None)
    assert home.heads.read(NAME) is None


def test_a_lost_head_hides_nothing(machine: Any) -> None:
    """Other machines saw states that this one did not: its erasure is newer than all of them."""
    home, other, fresh = machine("a"), machine("b"), machine("c")
    for generation in ("1", "2", "3"):
        publish(home, generation)
    other.refresh(NAME)
    home.objects.delete([f"{NAME}/head"])
    fresh.erase(NAME)
    other.refresh(NAME)
    home.refresh(NAME)
    assert files(other) == files(home) == []
    assert fresh.count(NAME) == 0


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_the_proof_says_what_was_covered(machine: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    content = {
        "home": settings["url"],
        "object_store": {"cache": str(tmp_path / "a"), "endpoint": settings["endpoint"]},
        "tenants": {"acme": {}},
        "sources": {"wiki": {"kind": "files", "tenant": "acme", "path": str(tmp_path), "readers": "everyone"}},
    }
    path = tmp_path / "app.yaml"
    path.write_text(json.dumps(content))
    home = machine("a")
    publish(home, "1")
    done = subprocess.run(
        [*CITELOCK, "erase", "--tenant", "acme", "--yes", "--config", str(path)],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    (file,) = (home.home / "erasures").glob("acme-*.json")
    proof = read_json(file)
    covered = proof["object_store"]
    assert covered["tenants/acme"]["listed"] == covered["tenants/acme"]["named"] == 3
    assert covered["sources/wiki"]["number"] == 0
    assert any("copies on other machines" in line for line in proof["not_covered"])
    assert TenantErasure(load_config(path), "acme").found() == {"rows": {}, "folders": {}}
