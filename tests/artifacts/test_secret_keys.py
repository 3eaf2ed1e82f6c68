"""One secret for an installation, a key for every purpose."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rag_serving.artifacts.secret import SecretError, derived_key


@pytest.fixture(autouse=True)
def no_secret_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CITELOCK_SECRET", raising=False)


def test_a_key_is_the_same_each_time_and_another_for_each_purpose(tmp_path: Path) -> None:
    assert derived_key(tmp_path, "receipts") == derived_key(tmp_path, "receipts")
    assert derived_key(tmp_path, "receipts") != derived_key(tmp_path, "users")
    assert len(derived_key(tmp_path, "users")) == 32


def test_two_homes_have_different_secrets(tmp_path: Path) -> None:
    assert derived_key(tmp_path / "a", "users") != derived_key(tmp_path / "b", "users")


def test_only_the_owner_may_read_the_secret(tmp_path: Path) -> None:
    derived_key(tmp_path, "users")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_many_at_once_make_one_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: derived_key(tmp_path / "home", "users"), range(32)))
    assert len(keys) == 1


def test_the_environment_stands_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_SECRET", "0123456789abcdef")
    assert derived_key(tmp_path / "a", "users") == derived_key(tmp_path / "b", "users")
    assert not (tmp_path / "a").exists()


def test_a_short_secret_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_SECRET", "hush")
    with pytest.raises(SecretError, match="fewer than 16"):
        derived_key(tmp_path, "users")


def test_a_damaged_secret_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"cut")
    with pytest.raises(SecretError, match="is damaged: 3 bytes"):
        derived_key(tmp_path, "users")


def test_a_lost_secret_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = derived_key(tmp_path, "users")
    secret = (tmp_path / "secret").read_bytes()
    manifest = tmp_path / "tenants" / "acme" / "generations" / "0123456789abcdef" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"id": "0123456789abcdef", "signature": "00"}')
    (tmp_path / "secret").unlink()
    with pytest.raises(SecretError, match="has generations but no secret; restore the file `secret`"):
        derived_key(tmp_path, "users")
    assert not (tmp_path / "secret").exists()
    (tmp_path / "secret").write_bytes(secret)
    assert derived_key(tmp_path, "users") == key
    (tmp_path / "secret").unlink()
    monkeypatch.setenv("CITELOCK_SECRET", "0123456789abcdef")
    assert derived_key(tmp_path, "users") != key
