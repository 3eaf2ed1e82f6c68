"""Distributions: the same bytes from the same commit, and a wheel that answers where nothing else is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from support.command_line import QUESTION, write_config
from support.wiki import RESTART

from rag_serving.models.embedding.weights import packaged_folder
from scripts import lock

ROOT = Path(__file__).parents[1]
ALONE = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def built(root: Path, out: Path, umask: int = 0o022) -> dict[str, bytes]:
    """What `make dist` builds from a checkout, by name."""
    weights = packaged_folder()
    assert weights is not None
    options = ["--root", str(root), "--weights", str(weights.parents[1])]
    command = [sys.executable, str(ROOT / "scripts" / "dist.py"), str(out), *options]
    run = subprocess.run(command, capture_output=True, text=True, umask=umask, env=ALONE)
    assert run.returncode == 0, run.stderr
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout: what is committed is built")
    out = tmp_path_factory.mktemp("dist")
    built(ROOT, out)
    return out


def test_the_same_commit_gives_the_same_bytes_in_another_folder(dist: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", ROOT, tmp_path / "other"], check=True)
    again = built(tmp_path / "other", tmp_path / "out", umask=0o077)
    projects = ["citelock", *(f"citelock_{path.parent.name}" for path in ROOT.glob("plugins/*/pyproject.toml"))]
    endings = ("-0.1.0.tar.gz", "-0.1.0-py3-none-any.whl")
    assert sorted(again) == sorted(name + ending for name in projects for ending in endings)
    assert [name for name, content in again.items() if (dist / name).read_bytes() != content] == []


def test_a_wheel_in_an_empty_environment_answers_with_a_citation(dist: Path, wiki_home: Path, tmp_path: Path) -> None:
    """The weights and the model of languages are in it; versions are the locked ones."""
    environment = tmp_path / "empty"
    venv.create(environment, with_pip=False, symlinks=True)
    locked = lock.blocks((ROOT / "requirements" / "base.txt").read_text()).values()
    pins = [block.splitlines()[0].removesuffix(" \\") for block in locked]  # with the machines that they are for
    (tmp_path / "pins.txt").write_text("\n".join(pins))
    (wheel,) = dist.glob("citelock-*.whl")
    bin_folder = environment / "bin"

    def run(*command: object) -> str:
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=tmp_path, env=ALONE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    pip = [sys.executable, "-m", "pip", "--python", bin_folder / "python", "install", "--quiet", "--no-compile"]
    if os.environ.get("CI") != "true":
        asked = [*map(str, pip[:3]), "download", "--quiet", "--no-deps", "--dest", str(tmp_path), "six"]
        if subprocess.run(asked, capture_output=True, env=ALONE).returncode:
            pytest.skip("no package registry can be reached")
    run(*pip, "--constraint", tmp_path / "pins.txt", wheel)
    code = "from rag_serving.models.language_detector import question_language as l; print(l('Quanti giorni ho?'))"
    assert run(bin_folder / "python", "-c", code) == "it\n"
    config = write_config(tmp_path, wiki_home)
    told = run(bin_folder / "citelock", "ask", QUESTION, "--config", config, "--json")
    answer = json.loads(told)
    assert answer["answer"] == f"{RESTART} [1]"
    assert answer["citations"][0]["verification"] == "exact"
    assert answer["flags"] == []
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "vans.md").write_text(
        "# Vans\n\n## Charging\n\nElectric vans are charged from 22:00 to 05:30.\n"
    )
    of_folder = json.loads(run(bin_folder / "citelock", "ask", "--docs", "docs", "When are vans charged?", "--json"))
    assert of_folder["citations"][0]["quote"] == "Electric vans are charged from 22:00 to 05:30."


def test_changes_name_the_version_that_all_packages_have() -> None:
    files = [ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]
    (version,) = {tomllib.loads(path.read_text())["project"]["version"] for path in files}
    assert re.search(rf"^## .*\b{re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_what_is_packed_is_what_the_program_reads(dist: Path) -> None:
    (wheel,) = dist.glob("citelock-*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if "/packaged/" in name}
    assert packed == {
        f"rag_serving/models/packaged/{name}"
        for name in ("NOTICE.MD", "lid.176.ftz", "model.safetensors", "tokenizer.json")
    }
