"""Fingerprints are computed once for every text, and a damaged file costs no more than time."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from rag_assets.state.content_cache import SIGNATURES_FILE, SignatureCache
from rag_assets.steps.dedup import FINGERPRINT, fingerprints

TEXTS = ["one text", "another text", "one text"]
HASHES = ["a", "b", "a"]


def test_each_text_is_fingerprinted_once_and_in_order(tmp_path: Path) -> None:
    cache = SignatureCache(tmp_path)
    first, computed = cache.fingerprints(TEXTS, HASHES)
    again, computed_again = SignatureCache(tmp_path).fingerprints(TEXTS[::-1], HASHES[::-1])
    assert (computed, computed_again) == (2, 0)
    assert first.tobytes() == again[::-1].tobytes() == fingerprints(TEXTS).tobytes()


def test_no_texts_give_no_fingerprints(tmp_path: Path) -> None:
    found, computed = SignatureCache(tmp_path).fingerprints([], [])
    assert (len(found), found.dtype, computed) == (0, FINGERPRINT, 0)


def test_a_damaged_file_is_begun_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = SignatureCache(tmp_path)
    cache.fingerprints(TEXTS, HASHES)
    (tmp_path / SIGNATURES_FILE).write_bytes(b"not a database" * 1000)
    found, computed = cache.fingerprints(TEXTS, HASHES)
    assert found.tobytes() == fingerprints(TEXTS).tobytes()
    assert computed == 2
    assert "is damaged" in caplog.text
    assert cache.fingerprints(TEXTS, HASHES)[1] == 0


def test_a_record_that_is_not_whole_is_computed_again(tmp_path: Path) -> None:
    cache = SignatureCache(tmp_path)
    cache.fingerprints(TEXTS, HASHES)
    with sqlite3.connect(tmp_path / SIGNATURES_FILE) as database:
        database.execute("UPDATE fingerprints SET record = zeroblob(length(record)) WHERE key LIKE '%:a'")
    database.close()
    found, computed = cache.fingerprints(TEXTS, HASHES)
    assert computed == 1
    assert np.array_equal(found["words"], [2, 2, 2])


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / SIGNATURES_FILE).mkdir()
    found, computed = SignatureCache(tmp_path).fingerprints(TEXTS, HASHES)
    assert (len(found), computed) == (3, 2)
    assert "cannot be used" in caplog.text
