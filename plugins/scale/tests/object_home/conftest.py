"""Stores that a home can be shared by: S3 over the wire, a folder, and Azure where CITELOCK_AZURITE names azurite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support import azure_server
from support.constants import section_of
from support.s3_server import BUCKET, CREDENTIALS, s3_server

from citelock_scale.object_home.home import ObjectHome
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.config.index import ObjectStore

_NUMBERS = count()

Machine = Callable[..., ObjectHome]


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture(scope="session")
def azure() -> Iterator[str]:
    with azure_server.azure_server() as address:
        yield address


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        **CREDENTIALS,
        **azure_server.CREDENTIALS,
        SECRET_ENV: "a secret of sixteen characters",
    }.items():
        monkeypatch.setenv(name, value)


# Tests of any store run over a folder; over S3 at night, but for the contract in test_shared_home.py.
@pytest.fixture(
    params=[pytest.param("s3", marks=pytest.mark.nightly), "file", *(["az"] if azure_server.AZURITE else [])]
)
def settings(request: pytest.FixtureRequest, s3: str, tmp_path: Path) -> dict[str, Any]:
    """Return the settings of an empty store; `lease_s` is short."""
    quick = {"lease_s": 1, "retry_s": 5, "timeout_s": 10}
    if request.param == "file":
        return {"url": f"file://{tmp_path / 'store'}", **quick}
    if request.param == "az":
        url = f"az://{azure_server.CONTAINER}/{next(_NUMBERS)}"
        return {"url": url, "endpoint": request.getfixturevalue("azure"), **quick}
    return {"url": f"s3://{BUCKET}/{next(_NUMBERS)}", "endpoint": s3, **quick}


@pytest.fixture
def machine(settings: dict[str, Any], tmp_path: Path) -> Machine:
    """Return a machine of that name, which has a folder of its own and the store in common with others."""

    def opened(name: str, **more: Any) -> ObjectHome:
        home = tmp_path / name
        home.mkdir(exist_ok=True)
        return ObjectHome(section_of(ObjectStore, **{**settings, **more}), home)

    return opened
