"""The bundle's files are read once, and a client gets the copy that it accepts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.web.bundle import Copy, StaticFile, read_bundle

FILE = StaticFile("text/css", Copy(b"plain"), {"br": Copy(b"b", "br"), "gzip": Copy(b"g", "gzip")})


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("", None),
        ("identity", None),
        ("gzip, deflate, br, zstd", "br"),
        ("GZIP", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("br;q=0.2, gzip;q=0.9", "gzip"),
        ("*", "br"),
        ("*;q=0", None),
        ("br;q=x", None),
        ("br;q=0,gzip;q=0", None),
        (",".join("x" * 10 for _ in range(10_000)), None),
    ],
)
def test_a_client_gets_the_copy_that_it_prefers(accepted: str, encoding: str | None) -> None:
    assert FILE.copy_for(accepted).encoding == encoding


@given(accepted=st.text(max_size=60))
def test_whatever_a_client_accepts_it_gets_a_copy(accepted: str) -> None:
    assert FILE.copy_for(accepted) in (FILE.plain, *FILE.encoded.values())


def test_a_bundle_is_files_of_known_types_with_their_copies(tmp_path: Path) -> None:
    (tmp_path / "static" / "assets").mkdir(parents=True)
    (tmp_path / "secret.json").write_text("{}")
    for name in ("index.html", "assets/a.js", "assets/a.js.br", "assets/a.js.gz", "assets/.env", "assets/a.pem"):
        (tmp_path / "static" / name).write_text(name)
    (tmp_path / "static" / "link.json").symlink_to(tmp_path / "secret.json")
    files = read_bundle(tmp_path / "static")
    assert sorted(files) == ["assets/a.js", "index.html"]
    assert {name: copy.content for name, copy in files["assets/a.js"].encoded.items()} == {
        "br": b"assets/a.js.br",
        "gzip": b"assets/a.js.gz",
    }


def test_where_no_bundle_was_built_there_are_no_files(tmp_path: Path) -> None:
    assert read_bundle(tmp_path / "nowhere") == {}


def test_what_has_no_compressed_copy_beside_it_gets_one(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_bytes(b"let a;" * 100)
    (tmp_path / "a.png").write_bytes(b"picture")
    files = read_bundle(tmp_path)
    assert gzip.decompress(files["a.js"].encoded["gzip"].content) == b"let a;" * 100
    assert files["a.png"].encoded == {}
    assert read_bundle(tmp_path) == files, "the same bytes, whenever they are read"
