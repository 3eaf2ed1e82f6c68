"""A home in an object store beside CITELOCK_HOME, which the images set: the address stays, the folder is its cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_serving.cli.doctor import examine
from rag_serving.config.loading import Config, ConfigError, parse_config

S3, FOLDER = "s3://bucket/prefix", "/var/lib/citelock"


@pytest.fixture(autouse=True)
def in_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_HOME", FOLDER)


def parts_of(content: dict[str, Any]) -> tuple[str, str | None, str]:
    """Return the folder, the address and the cache, which a serving process must read the same."""
    config = parse_config(content)
    assert Config.model_validate_json(config.model_dump_json()) == config
    return str(config.home), config.object_store.url, str(config.object_store.cache)


@pytest.mark.parametrize("scheme", ["s3", "gs", "az", "file"])
def test_the_address_of_the_file_stays_and_the_folder_is_its_cache(scheme: str) -> None:
    assert parts_of({"home": f"{scheme}://bucket"}) == (FOLDER, f"{scheme}://bucket", FOLDER)


def test_a_cache_that_is_set_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    content: dict[str, Any] = {"home": S3, "object_store": {"cache": "/cache"}}
    assert parts_of(content) == ("/cache", S3, "/cache")
    assert parts_of({"home": S3, "object_store": {"cache": ".citelock"}}) == (".citelock", S3, ".citelock")
    monkeypatch.setenv("CITELOCK_OBJECT_STORE__CACHE", "/other")
    assert parts_of(content) == ("/other", S3, "/other")


def test_a_folder_in_the_file_is_replaced_by_the_variable() -> None:
    assert parts_of({"home": "/home"}) == (FOLDER, None, ".citelock")


def test_an_address_in_the_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_HOME", "gs://other")
    assert parts_of({"home": S3}) == (".citelock", "gs://other", ".citelock")
    monkeypatch.setenv("CITELOCK_HOME", FOLDER)
    monkeypatch.setenv("CITELOCK_OBJECT_STORE__URL", "gs://other")
    assert parts_of({"home": S3}) == (FOLDER, "gs://other", FOLDER)
    assert parts_of({}) == (FOLDER, "gs://other", FOLDER)


def test_an_empty_address_makes_the_folder_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_OBJECT_STORE__URL", "")
    assert parts_of({"home": S3}) == (FOLDER, None, ".citelock")


def test_without_the_variable_the_cache_is_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CITELOCK_HOME")
    assert parts_of({"home": S3}) == (".citelock", S3, ".citelock")
    assert parts_of({"home": "/home", "object_store": {"url": S3}}) == ("/home", S3, "/home")


def test_another_scheme_is_still_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="neither a folder nor one of s3://"):
        parse_config({"home": "ftp://bucket"})
    monkeypatch.setenv("CITELOCK_HOME", "ftp://bucket")
    with pytest.raises(ConfigError, match="neither a folder nor one of s3://"):
        parse_config({"home": S3})


def test_the_doctor_names_the_address_and_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_HOME", str(tmp_path))
    (tmp_path / "app.yaml").write_text(f"home: {S3}")
    found = next(finding for finding in examine(tmp_path / "app.yaml") if finding.name == "home")
    assert found.detail == f"{S3}; its cache on this machine is {tmp_path} (CITELOCK_HOME)"
