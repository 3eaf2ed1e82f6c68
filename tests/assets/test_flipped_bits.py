"""One bit that is another in any file that is served, of a generation or a report: it is refused, or named."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.envelopes import Wiki

from rag_serving.artifacts.signed_files import read_signed_text, write_signed_text
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import load_config
from rag_serving.indexes.catalog import list_reports, read_report
from rag_serving.indexes.integrity import find_file_damage


def flipped(path: Path, at: float) -> bytes:
    """Turn a bit of a file and return what it was."""
    content = path.read_bytes()
    place = min(int(len(content) * at), len(content) - 1)
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    return content


@pytest.mark.parametrize("at", [0.0, 0.5, 1.0])
def test_a_bit_in_each_file_of_a_generation_is_named(built_wiki: Wiki, at: float) -> None:
    store, config = Store(built_wiki.home), load_config(built_wiki.config_path)
    current = store.current("demo") or ""
    folder = store.generation("demo", current)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert {"eval_report.html", "eval_report.json", "manifest.json"} <= {path.name for path in files}
    for path in files:
        before = flipped(path, at)
        parts = [damage.part for damage in find_file_damage(store, "demo", current, config, "digests")]
        assert f"generations/{current}/{path.relative_to(folder)}" in parts
        path.write_bytes(before)
    assert find_file_damage(store, "demo", current, config, "digests") == []


def test_a_bit_in_each_report_is_refused(built_wiki: Wiki) -> None:
    store = Store(built_wiki.home)
    reports = list_reports(store, "demo")
    assert reports
    for report in reports:
        before = flipped(report.path, 0.5)
        with pytest.raises(StoreError, match="was altered"):
            read_report(store, "demo", report.name)
        report.path.write_bytes(before)
        assert read_report(store, "demo", report.name) == before.decode()


def test_a_text_is_signed_to_its_last_byte_and_for_its_place(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path, other = tmp_path / "a.html", tmp_path / "b.html"
    text = "<p>é\r\n<!-- signed 0 -->\n</p>"
    write_signed_text(store, path, text)
    whole = path.read_bytes()
    assert read_signed_text(store, path).startswith(text)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(StoreError):
            read_signed_text(store, path)
    for content in (whole + b"\n", whole[:-1], text.encode(), b""):
        path.write_bytes(content)
        with pytest.raises(StoreError):
            read_signed_text(store, path)
    other.write_bytes(whole)
    with pytest.raises(StoreError):
        read_signed_text(store, other)
