"""The images, built by buildah, unpacked, and run as user 10001 from a root that nobody can write.

With CITELOCK_IMAGES=1 (nightly, root, minutes): assets builds the sample wiki, serving answers a question from a home,
the reranker on processors serves a tiny model. CITELOCK_IMAGES_STORE keeps layers between runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from support.celery_processes import free_port
from support.image_roots import ROOT, USER, output, require_builder, size, started, unpacked
from support.tiny_reranker import save_xlm_roberta
from support.waiting import status_of, wait_until

TOKEN, SECRET = "a-token-of-the-test", "0123456789abcdef" * 4
LIMITS = {"serving": 1.3e9, "assets": 2.1e9, "reranker": 2.0e9}
"""Bytes that an image may have on a base of Debian's packages: docs/deploy.md has what they are."""
CONFIG = """
tenants: {{demo: {{}}}}
sources:
  eng: {{kind: confluence_dump, tenant: demo, path: {sample}/ENG, readers: everyone}}
  ops: {{kind: confluence_dump, tenant: demo, path: {sample}/OPS, readers: everyone}}
context: {{provider: metadata}}
serving: {{auth: tokens}}
"""
Unpacked = Callable[[str], Path]
Config = Callable[[str], Path]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        not os.environ.get("CITELOCK_IMAGES", ""), reason="takes minutes: CITELOCK_IMAGES=1 builds them"
    ),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unpacked]:
    """Builds and unpacks an image, once for all tests."""
    require_builder()
    folder = tmp_path_factory.mktemp("images")
    for path in (folder, *folder.parents):
        if path.is_relative_to(Path("/tmp")) and path != Path("/tmp"):
            path.chmod(0o755)  # user 10001 has to enter it
    store = Path(os.environ.get("CITELOCK_IMAGES_STORE") or folder / "store")
    known: dict[str, Path] = {}

    def build(name: str) -> Path:
        if name not in known:
            more = ["--build-arg", "TORCH=torch-cpu"] if name == "reranker" else []
            known[name] = unpacked(name, store, folder / name, *more)
        return known[name]

    yield build
    for root in known.values():
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Writes the configuration of the sample, which lies in this folder."""

    def write(sample: str) -> Path:
        path = tmp_path / "app.yaml"
        path.write_text(CONFIG.format(sample=sample))
        return path

    tmp_path.chmod(0o755)
    tmp_path.parent.chmod(0o755)
    return write


def of_nobody(folder: Path) -> Path:
    """Give a folder, which is made where there is none, to the user of the images."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["chown", "-R", f"{USER}:{USER}", str(folder)], check=True)
    return folder


@contextmanager
def running(
    root: Path, image: str, command: list[str], mounts: dict[Path, str], given: dict[str, str]
) -> Iterator[int]:
    """Yield the number of a process that serves; it must end by itself after SIGTERM."""
    with started(root, image, command, mounts, given) as process:
        try:
            yield process.pid
        finally:
            process.terminate()
            printed, _ = process.communicate(timeout=120)
        assert process.returncode in (0, -15), printed


def user_of(pid: int) -> str:
    (uid,) = re.findall(r"^Uid:\t(\d+)\t", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return str(uid)


def question_is_answered(root: Path, home: Path, app: Path) -> None:
    """Serve a home from the image of serving, and ask what one of its pages says."""
    port = free_port()
    given = {
        "CITELOCK_SERVING__HOST": "127.0.0.1",
        "CITELOCK_SERVING__PORT": str(port),
        "CITELOCK_SECRET": SECRET,
        "CITELOCK_TOKENS": json.dumps({TOKEN: {"tenant": "demo", "user": "ann"}}),
    }
    mounts = {home: "/var/lib/citelock", app: "/etc/citelock/app.yaml"}
    with running(root, "serving", ["citelock", "serve"], mounts, given) as pid:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: status_of(f"{url}/readyz") == 200, 180)
        assert user_of(pid) == str(USER)
        reply = httpx.post(
            f"{url}/v1/ask",
            json={"question": "How long can a release be rolled back?"},
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=120,
        ).json()
    assert reply["status"] == "answered"
    assert reply["citations"][0]["quote"]


def test_serving_answers_a_question_with_a_citation(image: Unpacked, config: Config, tmp_path: Path) -> None:
    root = image("serving")
    assert size(root) < LIMITS["serving"]
    assert not (root / "opt/citelock/bin/pip").exists()
    app = config(str(ROOT / "sample"))
    command = [str(Path(sys.executable).parent / "citelock"), "build", "--config", str(app)]
    variables = {**os.environ, "CITELOCK_HOME": str(tmp_path / "home"), "CITELOCK_SECRET": SECRET}
    subprocess.run(command, check=True, cwd=ROOT, env=variables)
    question_is_answered(root, of_nobody(tmp_path / "home"), app)


def test_assets_builds_the_sample_and_loads_its_code_location(image: Unpacked, config: Config, tmp_path: Path) -> None:
    root = image("assets")
    assert size(root) < LIMITS["assets"]
    home, app, dagster = of_nobody(tmp_path / "home"), config("/srv/sample"), of_nobody(tmp_path / "dagster")
    shutil.copy(root / "opt/dagster/dagster.yaml", dagster)  # a volume begins as the folder of the image
    mounts = {home: "/var/lib/citelock", app: "/etc/citelock/app.yaml", ROOT / "sample": "/srv/sample"}
    mounts[of_nobody(dagster)] = "/opt/dagster"
    status, printed = output(root, "assets", ["citelock", "build"], mounts, {"CITELOCK_SECRET": SECRET})
    assert status == 0, printed
    assert (home / "tenants" / "demo" / "current").exists()
    assert (home / "tenants" / "demo" / "current").stat().st_uid == USER

    port = str(free_port())
    command = [
        *["dagster", "code-server", "start", "--host", "127.0.0.1", "--module-name", "rag_assets.definitions"],
        "--port",
        port,
    ]
    check = ["dagster", "api", "grpc-health-check", "--port", port]
    with running(root, "assets", command, mounts, {"CITELOCK_SECRET": SECRET}):
        wait_until(lambda: output(root, "assets", check, mounts, {})[0] == 0, 300)


def test_the_reranker_serves_a_model_on_processors(image: Unpacked, tmp_path: Path) -> None:
    root = image("reranker")
    assert size(root) < LIMITS["reranker"]
    models = of_nobody(save_xlm_roberta(tmp_path / "models"))
    tmp_path.chmod(0o755)
    tmp_path.parent.chmod(0o755)
    port = free_port()
    given = {
        "RERANK_TOKEN": TOKEN,
        "CITELOCK_RERANKER__MODEL": "/models",
        "HF_HUB_OFFLINE": "1",
    }
    with running(
        root,
        "reranker",
        ["citelock", "rerank-service", "--port", str(port), "--device", "cpu"],
        {models: "/models"},
        given,
    ):
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: status_of(f"{url}/readyz") == 200, 300)
        assert status_of(f"{url}/healthz") == 200
        passages = [{"id": "a", "text": "rollback a release"}, {"id": "b", "text": "holiday policy"}]
        body = {"query": "how is a release rolled back", "candidates": passages}
        reply = httpx.post(f"{url}/rerank", json=body, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
        assert reply.status_code == 200, reply.text
        assert {each["id"] for each in reply.json()["results"]} == {"a", "b"}
