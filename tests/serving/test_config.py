from __future__ import annotations

from pathlib import Path

import pytest

from rag_serving.config import ConfigError, load_config, parse_config


def test_the_shipped_configuration_is_valid() -> None:
    assert set(load_config(Path("config/app.yaml")).sources) == {"eng", "ops"}


def test_the_environment_stands_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_RETRIEVAL__DENSE_K", "40")
    retrieval = parse_config({"retrieval": {"dense_k": 60, "lexical_k": 70}}).retrieval
    assert (retrieval.dense_k, retrieval.lexical_k) == (40, 70)


@pytest.mark.parametrize(
    "content",
    [
        {"reranker": {"url": "http://gpu/rerank"}, "retrieval": {"final_passages": 12}},
        {"reranker": {"top_n": 5}, "retrieval": {"final_passages": 5}},
        {"reranker": {"top_n": 20}},
    ],
)
def test_a_reranker_that_returns_what_is_locked_is_allowed(content: dict[str, object]) -> None:
    parse_config(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"retreival": {}}, "unknown key 'retreival'; did you mean 'retrieval'?"),
        ({"retrieval": {"dens_k": 3}}, "unknown key 'retrieval.dens_k'; did you mean 'dense_k'?"),
        ({"retrieval": {"dense_k": 0}}, "retrieval.dense_k: Input should be greater than or equal to 1"),
        ({"tenants": {"a": {}}, "sources": {"s": {"kind": "confluence", "tenant": "a"}}}, "sources.s.base_url"),
        (
            {"tenants": {"a": {}}, "sources": {"s": {"kind": "confluence_dump", "tenannt": "a", "path": "x"}}},
            "unknown key 'sources.s.tenannt'; did you mean 'tenant'?",
        ),
        ({"sources": {"s": {"kind": "confluence_dump", "tenant": "b", "path": "x"}}}, "'b' is not among the tenants"),
        ({"tenants": {"A b": {}}}, "must be a slug"),
        ({"features": {"FEATURE_RAG_PROVENANCE_LOCK": False}}, "features.FEATURE_RAG_PROVENANCE_LOCK"),
        ({"reranker": {"top_n": 7}}, "reranker.top_n (7) is below retrieval.final_passages (8)"),
        (
            {"reranker": {"top_n": 8}, "retrieval": {"final_passages": 12}},
            "raise reranker.top_n to 12 or lower retrieval.final_passages to 8",
        ),
        (
            {
                "tenants": {"a": {}},
                "sources": {"s": {"kind": "confluence_dump", "tenant": "a", "path": "x", "readers": ["staff"]}},
            },
            "reader 'staff' must start with",
        ),
    ],
)
def test_a_fault_is_told_in_one_line(content: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(content)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_says_how_to_give_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--config or CITELOCK_CONFIG"):
        load_config(tmp_path / "absent.yaml")


@pytest.mark.parametrize("content", [b"a: [", b"- 1\n", b"\xff\xfe\x00"])
def test_a_file_that_is_not_a_mapping_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "app.yaml").write_bytes(content)
    with pytest.raises(ConfigError):
        load_config(tmp_path / "app.yaml")


def test_an_empty_variable_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_HOME", "")
    assert parse_config({}).home == Path(".citelock")
