from __future__ import annotations

import re
from pathlib import Path

import pytest

from rag_serving.config.loading import ConfigError, load_config, load_usable, parse_config


def test_the_shipped_configuration_is_valid() -> None:
    assert set(load_config(Path("config/app.yaml")).sources) == {"eng", "ops", "uploads"}


@pytest.mark.parametrize("section", ["embedding", "generation"])
def test_ollama_without_its_extra_is_refused(section: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = {section: {"provider": "ollama", "model": "llama3.2"}}
    parse_config(content)
    monkeypatch.setattr("rag_serving.plugins.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=rf"{section}.provider: ollama needs citelock\[ollama\]: pip install"):
        parse_config(content)


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
        ({"degradation": {"window_s": 3}}, "key 'degradation.window_s' is now fixed at 300; delete it"),
        (
            {"index": {"kind": "opensearch", "url": "x"}},
            "gone with OpenSearch; index.kind is one of disk, postgres",
        ),
        (
            {"index": {"shards": 4}},
            "key 'index.shards' is now gone with OpenSearch; index.kind is one of",
        ),
        ({"jobs": {"tokens_per_job": 3}}, "key 'jobs.tokens_per_job' is now 64 texts of 512 tokens"),
        ({"tenants": {"a": {"keyword": {"top_k": 3}}}}, "key 'tenants.a.keyword.top_k' is now fixed at 5; delete it"),
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


@pytest.mark.parametrize(
    ("content", "near"),
    [
        ({"serving": {"hst": "x"}}, "'host'"),
        ({"sessions": {"store_day": 3}}, "'store_days'"),
        ({"context": {"timeout": 3}}, "'timeout_s'"),
        ({"retrieval": {"quote_max_words": 3}}, "'generation.quote_max_words'"),
        ({"rrf_k": 3}, "'retrieval.rrf_k'"),
        (
            {
                "tenants": {"a": {}},
                "sources": {
                    "s": {
                        "kind": "confluence",
                        "tenant": "a",
                        "base_url": "https://x.example",
                        "space": "S",
                        "auth": {"kind": "bearer", "tokn_env": "T"},
                    }
                },
            },
            "'token_env'",
        ),
    ],
)
def test_a_wrong_key_names_the_nearest_of_its_own_section_first(content: dict[str, object], near: str) -> None:
    with pytest.raises(ConfigError, match=rf"unknown key .*; did you mean {near}\?"):
        parse_config(content)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("CITELOCK_RETREIVAL__DENSE_K", "CITELOCK_RETRIEVAL__DENSE_K"),
        ("CITELOCK_RETRIEVAL_DENSE_K", "CITELOCK_RETRIEVAL__DENSE_K"),
        ("CITELOCK_RETRIEVAL__DENS_K", "CITELOCK_RETRIEVAL__DENSE_K"),
        ("citelock_hoem", "CITELOCK_HOME"),
        ("CITELOCK_SECRETS", "CITELOCK_SECRET"),
        ("CITELOCK_SOURCE__ENG__PATH", "CITELOCK_SOURCES__ENG__PATH"),
    ],
)
def test_an_unknown_variable_names_the_nearest_known_one(monkeypatch: pytest.MonkeyPatch, name: str, near: str) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError) as caught:
        parse_config({})
    assert str(caught.value) == f"unknown environment variable {name}; did you mean {near}?"


def test_a_variable_that_is_like_no_key_is_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_XYZ", "1")
    monkeypatch.setenv("CITELOCK_DEGRADATION__WINDOW_S", "3")
    with pytest.raises(ConfigError, match="CITELOCK_DEGRADATION__WINDOW_S is now fixed at 300; delete it"):
        parse_config({})
    monkeypatch.delenv("CITELOCK_DEGRADATION__WINDOW_S")
    with pytest.raises(ConfigError, match="unknown environment variable CITELOCK_XYZ; a key is set as"):
        parse_config({})


def test_variables_that_something_reads_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    files = [
        path
        for room in ("rag_serving", "rag_assets", "tests", "evals", "scripts")
        for path in (root / room).rglob("*.py")
    ]
    read = {name for path in files for name in re.findall(r'environ\W+(?:get\()?"(CITELOCK_\w+)"', path.read_text())}
    assert {"CITELOCK_CONFIG", "CITELOCK_LEAK_PAIRS"} <= read
    for name in {*read, "CITELOCK_SECRET"} - {"CITELOCK_CONFIG"}:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("CITELOCK_MY_TOKENS", "{}")
    monkeypatch.setenv("CITELOCK_SIDECAR_TOKEN", "x")
    monkeypatch.setenv("CITELOCK_RERANKER__TOKEN_ENV", "CITELOCK_SIDECAR_TOKEN")
    monkeypatch.setenv("CITELOCK_SOURCES", "{}")
    monkeypatch.setenv("CITELOCK_GENERATION__PRICES", "{}")
    assert parse_config({"serving": {"tokens_env": "CITELOCK_MY_TOKENS"}}).serving.tokens_env == "CITELOCK_MY_TOKENS"


def test_a_variable_that_one_source_names_is_known_beside_a_faulty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITELOCK_ENG_TOKEN", "x")
    usual = "kind: confluence, tenant: a, base_url: 'https://x.example', space: S"
    (tmp_path / "app.yaml").write_text(
        f"tenants: {{a: {{}}}}\nsources:\n  ops: {{{usual}}}\n  bad: {{kind: confluence}}\n"
        f"  eng: {{{usual}, auth: {{kind: bearer, token_env: CITELOCK_ENG_TOKEN}}}}\n"
    )
    config, faults = load_usable(tmp_path / "app.yaml")
    assert (sorted(config.sources), sorted(faults)) == (["eng", "ops"], ["bad"])


def test_what_kubernetes_sets_beside_a_service_of_our_name_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CITELOCK_SERVICE_HOST", "CITELOCK_PORT_8088_TCP_ADDR", "CITELOCK_RERANK_SERVICE_PORT_HTTP"):
        monkeypatch.setenv(name, "10.0.0.1")
    with pytest.raises(ConfigError):
        parse_config({})
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    parse_config({})


@pytest.mark.parametrize(
    ("name", "message"), [("CITELOCK_RETRIEVAL", "retrieval"), ("CITELOCK_RETRIEVAL__DENSE_K", "set by")]
)
def test_a_variable_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, name: str, message: str) -> None:
    monkeypatch.setenv(name, "abc")
    with pytest.raises(ConfigError, match=message):
        parse_config({})


def test_an_empty_variable_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_HOME", "")
    assert parse_config({}).home == Path(".citelock")
