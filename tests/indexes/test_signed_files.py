"""Files beside the manifest that decide what is published: who cannot sign them cannot change what they say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors, config_for

from rag_assets.publishing.build import build_generation
from rag_assets.publishing.checks import CheckResult, verdict_path
from rag_assets.publishing.publish import PublishError, publish
from rag_serving.artifacts.signed_files import read_signed, write_signed
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.indexes.catalog import EVAL_REPORT, evaluations, list_generations


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_what_was_signed_is_read_and_nothing_else(store: Store) -> None:
    path, other = store.tenant("a") / "x.json", store.tenant("b") / "x.json"
    write_signed(store, path, {"passed": False})
    assert read_signed(store, path) == {"passed": False}
    shutil.copytree(path.parent, other.parent)
    with pytest.raises(StoreError, match=r"was written as tenants/a/x\.json"):
        read_signed(store, other)
    for content in ('{"passed": true}', path.read_text().replace("false", "true"), "[]", "{", '{"signature": 1}'):
        path.write_text(content)
        with pytest.raises(StoreError, match="citelock build"):
            read_signed(store, path)


def test_an_edited_verdict_publishes_nothing(store: Store) -> None:
    config = config_for(store.home)
    built = build_generation(store, TENANT, chunk_table(8), clustered_vectors(8), config, MODEL)
    built.close()
    path = verdict_path(store, TENANT, built.id)
    write_signed(store, path, {"checks": [vars(CheckResult("files", False, "1 is altered"))]})
    path.write_text(path.read_text().replace('"passed": false', '"passed": true'))
    with pytest.raises(PublishError, match="was not checked"):
        publish(store, TENANT, built.id, config)
    assert store.current(TENANT) is None


def test_an_edited_evaluation_says_nothing(store: Store) -> None:
    config = config_for(store.home)
    built = build_generation(store, TENANT, chunk_table(8), clustered_vectors(8), config, MODEL)
    built.close()
    path = store.generation(TENANT, built.id) / EVAL_REPORT
    report = {"gates": [{"gate": "precision", "passed": False}], "override": None}
    write_signed(store, path, report)
    assert [info.gates for info in list_generations(store, TENANT)] == ["gates failed: precision"]
    assert evaluations(store, TENANT) == {built.id: report}
    path.write_text(json.dumps({**json.loads(path.read_text()), "gates": []}))
    assert [info.gates for info in list_generations(store, TENANT)] == [None]
    assert evaluations(store, TENANT) == {}
