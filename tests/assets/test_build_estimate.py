"""`citelock build --estimate` says what a build will embed, and changes nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from support.building import build, build_json
from support.envelopes import Wiki


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def estimated(wiki: Wiki) -> dict[str, Any]:
    before = digests(wiki.home)
    found: dict[str, Any] = json.loads(build(wiki, "--estimate", "--json").stdout)["embedding_estimates"]["demo"]
    assert digests(wiki.home) == before
    return found


def test_what_is_estimated_is_what_is_embedded_and_nothing_is_written(wiki: Wiki) -> None:
    wiki.configure(embedding={"prices": {"all-MiniLM-L6-v2": {"input": 2.0}}})
    expected = estimated(wiki)
    assert not wiki.home.exists()
    done = build_json(wiki)["tenants"]["demo"]
    assert expected["chunks"] == done["chunks"] == done["texts_embedded"]
    assert expected["texts"] == done["texts_embedded"] + done["sentences_embedded"]
    assert expected["cost"] == round(expected["tokens"] * 2 / 1e6, 6) > 0
    assert sum(part["texts"] for part in expected["sources"].values()) == expected["texts"]
    assert estimated(wiki)["texts"] == 0
    text = build(wiki, "--estimate").stdout
    assert "nothing to embed: all-MiniLM-L6-v2 knows all texts" in text
