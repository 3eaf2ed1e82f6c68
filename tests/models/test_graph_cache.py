"""Graphs kept between starts: made once, made again where they were altered, never believed unsigned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_serving.models.embedding import local
from rag_serving.models.embedding.local import Bert
from rag_serving.models.embedding.onnx_format import GraphCache
from rag_serving.models.embedding.weights import Weights

IDS, LENGTHS = np.array([[101, 2129, 2146, 102]], np.int64), np.array([4], np.int32)


def kept(home: Path) -> Path:
    (path,) = (home / "cache" / "models").iterdir()
    return path


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_kept_graph_gives_the_same_vectors(
    packaged: Weights, tmp_path: Path, precision: local.Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Bert(packaged, precision, GraphCache(tmp_path))(IDS, LENGTHS)
    monkeypatch.setattr(local, "bert_graph", None)  # is not called again
    second = Bert(packaged, precision, GraphCache(tmp_path))(IDS, LENGTHS)
    assert (first == second).all()
    assert (first == Bert(packaged, precision, GraphCache(tmp_path))(IDS, LENGTHS)).all()


def test_a_file_with_one_bit_turned_is_made_again(tmp_path: Path) -> None:
    cache = GraphCache(tmp_path)
    assert cache.get("weights", lambda: b"graph") == b"graph"
    for place in (0, -1):  # of the signature, of the graph
        content = bytearray(kept(tmp_path).read_bytes())
        content[place] ^= 1
        kept(tmp_path).write_bytes(bytes(content))
        assert cache.get("weights", lambda: b"made") == b"made"
    kept(tmp_path).write_bytes(b"")
    assert cache.get("weights", lambda: b"again") == b"again"
    assert cache.get("weights", lambda: b"never") == b"again"


def test_a_graph_of_other_weights_is_not_taken(tmp_path: Path) -> None:
    cache = GraphCache(tmp_path)
    cache.get("one", lambda: b"of one")
    path = kept(tmp_path)
    cache.get("two", lambda: b"of two")
    (other,) = {*path.parent.iterdir()} - {path}
    path.replace(other)
    assert cache.get("two", lambda: b"made") == b"made"


def test_nothing_is_kept_where_there_is_no_home_or_no_right_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert GraphCache(tmp_path / "none").get("weights", lambda: b"graph") == b"graph"
    assert not (tmp_path / "none").exists()
    monkeypatch.setenv("CITELOCK_SECRET", "short")
    assert GraphCache(tmp_path).get("weights", lambda: b"graph") == b"graph"
    monkeypatch.delenv("CITELOCK_SECRET")
    (tmp_path / "cache").write_text("in the way")
    assert GraphCache(tmp_path).get("weights", lambda: b"graph") == b"graph"
