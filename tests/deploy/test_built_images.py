"""The images: what is in them by the Dockerfiles; and with CITELOCK_IMAGES=1 one is built, unpacked, and answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from rag_serving.config.loading import load_config
from scripts import build_images

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TOKEN = "a-token-of-the-test"
IN_THE_ROOT = """set -eu
root=$1 home=$2 config=$3; shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
mount --bind "$home" "$root/var/lib/citelock"
mkdir -p "$root/etc/citelock"; touch "$root/etc/citelock/app.yaml"
mount --bind "$config" "$root/etc/citelock/app.yaml"
mount -o remount,ro,bind "$root"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec /usr/sbin/chroot --userspec=10001:10001 "$root" "$@"
"""


def text(image: str) -> str:
    return (DEPLOY / image / "Dockerfile").read_text().replace("\\\n", " ")


def locked(file: str) -> set[str]:
    """The packages of a locked file and of those that it rests on."""
    lines = (ROOT / "requirements" / f"{file}.txt").read_text().splitlines()
    names = {found[0] for line in lines if (found := re.match(r"[\w.-]+(?===)", line))}
    for line in lines:
        if line.startswith("-r "):
            names |= locked(line.removeprefix("-r ").removesuffix(".txt"))
    return names


def installed(image: str) -> set[str]:
    files = re.findall(r"requirements/([\w-]+)\.txt", text(image))
    assert files
    return set().union(*(locked(file) for file in files))


def test_serving_has_neither_dagster_nor_torch_and_assets_has_what_workers_need() -> None:
    serving = installed("serving")
    assert {"fastapi", "chromadb", "psycopg", "obstore", "mcp"} <= serving
    assert not {name for name in serving if name.startswith(("dagster", "torch", "nvidia", "triton", "matplotlib"))}
    assert {"dagster", "dagster-celery", "dagster-k8s", "dagster-postgres", "redis"} <= installed("assets")
    assert "torch" not in installed("assets")


@pytest.mark.parametrize("image", build_images.IMAGES)
def test_an_image_is_built_in_stages_and_runs_as_nobody(image: str) -> None:
    lines = text(image)
    build, final = re.split(r"^FROM \$\{PYTHON_IMAGE\}$", lines, flags=re.MULTILINE)
    assert "--without-pip" in build
    assert "pip install" not in final
    assert re.search(r"^USER 10001:10001$", final, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*CMD \[", final, re.MULTILINE)
    assert re.search(r"^STOPSIGNAL SIGTERM$", final, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["', final, re.MULTILINE)  # no shell between a signal and the process
    assert "org.opencontainers.image.version" in final
    assert not re.search(r"build-essential|gcc|PASSWORD|_TOKEN=\S*\w{16}", lines)
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.11-slim-bookworm$", lines, re.MULTILINE)


def test_only_what_is_copied_is_sent_to_the_builder() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {line[1:].split("/")[0] for line in rules if line.startswith("!")}
    copied = {
        word.split("/")[0]
        for image in build_images.IMAGES
        for line in text(image).splitlines()
        if line.startswith("COPY") and "--from" not in line
        for word in line.split()[1:-1]
        if not word.startswith("--")
    }
    assert copied == allowed


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not os.environ.get("CITELOCK_IMAGES", ""), reason="takes minutes: CITELOCK_IMAGES=1 builds it")
def test_the_serving_image_is_built_and_answers_as_nobody_from_a_root_that_it_cannot_write(tmp_path: Path) -> None:
    needed = [program for program in ("buildah", "mmdebstrap", "unshare") if not shutil.which(program)]
    if needed or os.geteuid() != 0:
        what = f"building an image needs root and {', '.join(needed or ['nothing else'])}"
        if os.environ.get("CI") == "true":
            pytest.fail(what)
        pytest.skip(what)
    root, home = tmp_path / "root", tmp_path / "home"
    words = ["serving", "--root", str(tmp_path / "store"), "--keep", str(root)]
    subprocess.run([sys.executable, "scripts/build_images.py", *words], check=True, cwd=ROOT)
    home.mkdir()
    shutil.chown(home, 10001, 10001)
    tmp_path.chmod(0o755)
    config = tmp_path / "app.yaml"
    config.write_text("tenants: {demo: {}}\nserving: {auth: tokens}\n")
    assert load_config(config).serving.auth == "tokens"
    port = free_port()
    environment = {
        "PATH": "/opt/citelock/bin:/usr/local/bin:/usr/bin:/bin",
        "CITELOCK_CONFIG": "/etc/citelock/app.yaml",
        "CITELOCK_HOME": "/var/lib/citelock",
        "CITELOCK_SERVING__HOST": "127.0.0.1",
        "CITELOCK_SERVING__PORT": str(port),
        "CITELOCK_TOKENS": json.dumps({TOKEN: {"tenant": "demo", "user": "ann"}}),
    }
    command = ["unshare", "--mount", "bash", "-c", IN_THE_ROOT, "bash", str(root), str(home), str(config)]
    with subprocess.Popen([*command, "citelock", "serve"], env=environment) as process:
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    health = httpx.get(f"http://127.0.0.1:{port}/healthz")
                    break
                except httpx.TransportError:
                    assert process.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.2)
            assert health.json() == {"status": "ok"}
            assert f"\nUid:\t{10001}\t" in Path(f"/proc/{process.pid}/status").read_text()
            assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 503  # nothing is published
            assert not (root / "opt/citelock/bin/pip").exists()
        finally:
            process.terminate()
        assert process.wait(60) in (0, -15)
