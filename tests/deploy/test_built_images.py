"""The images, by their Dockerfiles: what is installed in them, and who runs them. Built ones: test_image_runs.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import build_images

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


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
    assert {"fastapi", "chromadb", "psycopg", "obstore", "mcp", "qdrant-client"} <= serving
    assert "./plugins/stores" in text("serving").split()
    assert not {name for name in serving if name.startswith(("dagster", "torch", "nvidia", "triton", "matplotlib"))}
    assert not {"celery", "docker", "redis"} & serving
    assets = installed("assets")
    assert {"dagster", "dagster-celery", "dagster-k8s", "dagster-postgres", "redis"} <= assets
    assert {"qdrant-client", "psycopg", "obstore"} <= assets
    assert "torch" not in assets


@pytest.mark.parametrize("image", build_images.IMAGES)
def test_an_image_has_what_a_configuration_may_turn_on(image: str) -> None:
    assert "phonenumbers" in installed(image)
    assert {"./plugins/governance", "./plugins/*"} & set(text(image).split())


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
