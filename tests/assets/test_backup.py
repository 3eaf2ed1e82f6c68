"""The backup that docs/operations.md describes gives the same answers and receipts elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from copy import copy
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from support.building import build_json, start
from support.command_line import run
from support.envelopes import PAGER, Wiki, envelope
from support.server_process import serving
from support.waiting import wait_until

from rag_assets.state.locks import is_held

SECTION = (Path(__file__).parents[2] / "docs" / "operations.md").read_text().partition("## Backups and restore")[2]
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", SECTION.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
BACK_UP, COPY_CACHES, RESTORE, CHECK = BLOCKS
QUESTION = "When do backups of the database start?"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the documented commands need GNU tar")


class Machine:
    """A place below which the documented paths `/srv/citelock`, `/backup` and `/vault` lie."""

    def __init__(self, folder: Path, home: Path, backup: Path) -> None:
        self.folder, self.home, self._backup = folder, home, backup
        (backup / "vault").mkdir(parents=True, exist_ok=True)

    def run(self, commands: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run documented commands in the shell; the exit status is that of the last one."""
        here = re.sub(r"^TO=.*$", f'TO="{self._backup}/copy"', commands, flags=re.MULTILINE)
        for documented, path in (("/srv/citelock/home", self.home), ("/vault", self._backup / "vault")):
            here = here.replace(documented, str(path))
        program = f'python() {{ "{sys.executable}" "$@"; }}\n'
        program += "citelock() { python -c 'from rag_serving.cli.main import main; main()' \"$@\"; }\n"
        environment = {**os.environ, **variables, "CITELOCK_CONFIG": str(self.folder / "app.yaml")}
        return subprocess.run(["bash", "-c", program + here], env=environment, text=True, capture_output=True)


@pytest.fixture
def original(built_wiki: Wiki) -> Machine:
    """The machine of the tiny wiki, which `citelock build` has built."""
    return Machine(built_wiki.folder, built_wiki.home, built_wiki.folder / "backup")


@pytest.fixture
def other(built_wiki: Wiki) -> Machine:
    """An empty machine with the same configuration, but for the place of its home."""
    folder = built_wiki.folder / "other"
    folder.mkdir()
    content = yaml.safe_load(built_wiki.config_path.read_text())
    (folder / "app.yaml").write_text(yaml.safe_dump({**content, "home": str(folder / "home")}))
    return Machine(folder, folder / "home", built_wiki.folder / "backup")


def asked(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("ask", QUESTION, "--json", "--config", str(machine.folder / "app.yaml"))[1])
    return found


def test_a_backup_answers_elsewhere_with_receipts_that_verify(original: Machine, other: Machine) -> None:
    before = asked(original)
    copied = original.run(f"{BACK_UP}\ninstall -m 600 secret /vault/citelock-secret")
    assert copied.returncode == 0, copied.stderr
    restored = other.run(f"set -e\n{RESTORE}")
    assert restored.returncode == 0, restored.stderr
    after = asked(other)
    assert (before["status"], len(before["citations"])) == ("answered", 1)
    assert [after["answer"], after["citations"]] == [before["answer"], before["citations"]]
    config = str(other.folder / "app.yaml")
    assert run("receipt", "verify", before["receipt_id"], "--config", config)[0] == 0


@pytest.mark.nightly
def test_a_backup_made_beside_a_server_and_a_build_answers_elsewhere_with_receipts_that_verify(
    built_wiki: Wiki, original: Machine, other: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(str(built_wiki.config_path), monkeypatch, processes=1) as server:
        before = httpx.post(f"{server.url}/v1/ask", json={"question": QUESTION}, timeout=60).json()
        built_wiki.write("ops", envelope("201", "Pager guide", PAGER.replace("this week", "each week"), version=2))
        with start(built_wiki, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as build:
            wait_until(lambda: is_held(built_wiki.home / "sources" / "ops"))
            copied = original.run(f"{BACK_UP}\n{COPY_CACHES}\ninstall -m 600 secret /vault/citelock-secret")
            assert build.poll() is None  # it ran all the time
    assert copied.returncode == 0, copied.stderr
    assert (before["status"], len(before["citations"])) == ("answered", 1)

    restored = other.run(f'set -e\n{RESTORE}\ncp -r "$TO/tenants" .')
    assert restored.returncode == 0, restored.stderr
    checked = other.run(f"set -e\n{CHECK}", RECEIPT=before["receipt_id"])
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{before['receipt_id']} holds" in checked.stdout
    after = asked(other)
    assert [after["answer"], after["citations"]] == [before["answer"], before["citations"]]

    there = copy(built_wiki)
    there.config_path = other.folder / "app.yaml"
    summary = build_json(there)["tenants"]["demo"]
    assert summary["texts_embedded"] <= 1  # of the page that changed


def test_a_restore_without_the_secret_is_refused_in_one_line_that_says_so(original: Machine, other: Machine) -> None:
    assert original.run(BACK_UP).returncode == 0
    other.run(RESTORE)  # nothing is in /vault
    found = other.run("citelock generations verify")
    assert found.returncode == 1
    assert re.search(r"^citelock: demo: .*home has no secret$", found.stderr, re.MULTILINE)
    found = other.run("citelock doctor")
    assert found.returncode == 1
    assert re.search(
        r"^fail  tenant demo .*home has no secret: restore the file `secret` of the home folder, or set ",
        found.stdout,
        re.MULTILINE,
    )
    assert not (other.home / "secret").exists()
