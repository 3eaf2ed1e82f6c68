"""Objects, trees and heads that are lost or altered: put back from a machine that has the files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.command_line import CITELOCK
from support.s3_server import faulty

from citelock_scale.object_home.home import ObjectHome
from citelock_scale.object_home.objects import StoreAwayError
from rag_serving.shared_home import ObjectHomeError

NAME = "tenants/acme"
FILES = {"a.json": "first", "b/c.json": "second", "d.json": "first", "e.json": ""}


def write(home: ObjectHome, texts: dict[str, str]) -> None:
    with home.writing(NAME):
        for path, text in texts.items():
            place = home.home / NAME / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)


def texts(home: ObjectHome) -> dict[str, str]:
    folder = home.home / NAME
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_text() for path in found if ".fetched" not in path.parts}


def blob_of(home: ObjectHome, path: str) -> str:
    head = home.heads.read(NAME).head  # type: ignore[union-attr]
    tree = home.folder(NAME).tree(head)
    return tree.blob(NAME, tree.files[path].digest)


def overwrite(home: ObjectHome, name: str, content: bytes) -> None:
    stored = home.objects.read(name)
    assert stored
    assert home.objects.replace(name, content, stored.version)


@pytest.mark.parametrize("damage", ["deleted", "altered", "shortened"])
def test_a_damaged_object_is_sent_again_by_who_has_the_file(machine: Any, damage: str) -> None:
    home, other = machine("a"), machine("b")
    write(home, FILES)
    name = blob_of(home, "a.json")
    if damage == "deleted":
        home.objects.delete([name])
    else:
        overwrite(home, name, b"worse" if damage == "altered" else b"f")
    with pytest.raises(ObjectHomeError, match="citelock home repair"):
        other.refresh(NAME)
    assert other.repair(NAME, dry_run=True).lost == ("a.json", "d.json"), "this machine has no files"
    looked = home.repair(NAME, dry_run=True)
    assert looked == (3, (), ("a.json", "d.json"), ())
    assert home.repair(NAME) == looked
    assert home.repair(NAME) == (3, (), (), ())
    other.refresh(NAME)
    assert texts(other) == texts(home) == FILES
    write(other, {"f.json": "third"})
    home.refresh(NAME)
    assert texts(home) == {**FILES, "f.json": "third"}


@pytest.mark.parametrize("damage", ["deleted", "altered"])
def test_a_damaged_tree_is_put_back(machine: Any, damage: str) -> None:
    home, other, fresh = machine("a"), machine("b"), machine("c")
    write(home, FILES)
    other.refresh(NAME)
    name = f"{NAME}/trees/{home.heads.read(NAME).head.tree}"
    if damage == "deleted":
        home.objects.delete([name])
    else:
        overwrite(home, name, b'{"format": 2}')
    with pytest.raises(ObjectHomeError, match="citelock home repair"):
        fresh.refresh(NAME)
    with pytest.raises(ObjectHomeError, match="does not remember it"):
        fresh.repair(NAME)
    assert other.repair(NAME).parts == ("tree",)
    fresh.refresh(NAME)
    home.refresh(NAME)
    assert texts(fresh) == texts(home) == FILES


def test_a_lost_head_is_put_back(machine: Any) -> None:
    """As the runbook says: nothing is done by hand but one command."""
    home, other, fresh = machine("a"), machine("b"), machine("c")
    for number in range(3):
        write(home, {**FILES, "number.json": str(number)})
    other.refresh(NAME)
    home.objects.delete([f"{NAME}/head"])
    with pytest.raises(ObjectHomeError, match="citelock home repair"):
        write(home, {"x.json": "not shared"})
    assert home.heads.read(NAME) is None, "a refused build makes no head of its own"
    assert home.repair(NAME).parts == ("head",)
    for one in (other, fresh):
        one.refresh(NAME)
        assert texts(one)["number.json"] == "2"
    write(other, {"number.json": "3"})
    home.refresh(NAME)
    assert texts(home)["number.json"] == "3"


def test_an_older_head_is_replaced_by_the_newer_state(machine: Any) -> None:
    home, other = machine("a"), machine("b")
    write(home, {"a.json": "1"})
    old = home.objects.read(f"{NAME}/head")
    write(home, {"a.json": "2"})
    other.refresh(NAME)
    overwrite(home, f"{NAME}/head", old.content)
    with pytest.raises(ObjectHomeError, match="older state"):
        other.refresh(NAME)
    assert home.repair(NAME).parts == ("head",)
    other.refresh(NAME)
    assert texts(other) == {"a.json": "2"}


def test_what_no_machine_has_is_named_and_left_out_on_demand(machine: Any) -> None:
    home, other = machine("a"), machine("b")
    write(home, FILES)
    home.objects.delete([blob_of(home, "b/c.json")])
    (home.home / NAME / "b/c.json").unlink()
    assert home.repair(NAME).lost == ("b/c.json",)
    with pytest.raises(ObjectHomeError, match="missing"):
        other.refresh(NAME)
    home.repair(NAME, without_lost=True)
    other.refresh(NAME)
    assert "b/c.json" not in texts(other)
    write(home, {"b/c.json": "built again"})
    other.refresh(NAME)
    assert texts(other)["b/c.json"] == "built again"


def test_what_is_erased_stays_so(machine: Any) -> None:
    home, other = machine("a"), machine("b")
    write(home, FILES)
    other.refresh(NAME)
    home.erase(NAME)
    assert other.repair(NAME) == (0, (), (), ())
    assert home.heads.read(NAME).head.erased
    home.objects.delete([f"{NAME}/head"])
    assert home.repair(NAME).parts == ("head",)
    other.refresh(NAME)
    assert texts(other) == {}


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_a_store_that_fails_is_not_taken_for_damage(machine: Any, s3: str) -> None:
    home = machine("a")
    write(home, FILES)
    before = home.heads.read(NAME).head
    with faulty(s3) as proxy:
        shaky = ObjectHome(home.settings.model_copy(update={"endpoint": proxy.url, "retry_s": 0}), home.home)
        proxy.fault = lambda _method, path: "500" if "/blobs/" in path else ""
        with pytest.raises(StoreAwayError):
            shaky.repair(NAME)
    after = home.heads.read(NAME).head
    assert (after.tree, after.number, after.holder) == (before.tree, before.number, "")


@pytest.mark.parametrize("settings", ["file"], indirect=True)
def test_the_command_heals_and_says_what_it_cannot(machine: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    content = {
        "home": settings["url"],
        "object_store": {"cache": str(tmp_path / "a")},
        "tenants": {"acme": {}},
        "sources": {},
    }
    path = tmp_path / "app.yaml"
    path.write_text(json.dumps(content))
    home = machine("a")
    write(home, FILES)
    home.objects.delete([blob_of(home, "a.json"), blob_of(home, "b/c.json")])
    (home.home / NAME / "b/c.json").unlink()

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*CITELOCK, "home", "repair", *more, "--config", str(path)], capture_output=True, text=True
        )

    done = run()
    assert done.returncode == 1, done.stderr
    assert "a.json was lost: is sent again" in done.stdout
    assert "b/c.json is lost: not on this machine" in done.stdout
    found = json.loads(run("--without-lost", "--json").stdout)
    assert [(each["folder"], each["healed"], each["lost"]) for each in found] == [(NAME, [], ["b/c.json"])]
    assert run().returncode == 0
