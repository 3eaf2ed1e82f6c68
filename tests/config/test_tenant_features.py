"""Switches that are otherwise for one tenant."""

from __future__ import annotations

import pytest

from rag_serving.config.loading import ConfigError, parse_config
from rag_serving.config.sections import Features

CONTENT = {
    "features": {"FEATURE_RM3": True, "FEATURE_RERANKER": False},
    "keyword": {"concepts": ["Home"]},
    "tenants": {"a": {"features": {"FEATURE_RERANKER": True}, "keyword": {"synonyms": {"pto": "leave"}}}, "b": {}},
}


def test_what_a_tenant_says_stands_over_what_all_have() -> None:
    own = parse_config(CONTENT).features_of("a")
    assert (own.FEATURE_RERANKER, own.FEATURE_RM3, own.FEATURE_HEURISTIC_FALLBACK) == (True, True, True)


def test_others_are_as_all_are() -> None:
    config = parse_config(CONTENT)
    assert config.features_of("b") == config.features_of("unknown") == config.features
    assert parse_config({"tenants": {"a": {}}}).features_of("a") == Features()


def test_a_value_that_is_the_built_in_default_is_a_tenant_s_own_too() -> None:
    content = {"features": {"FEATURE_RERANKER": False}, "tenants": {"a": {"features": {"FEATURE_RERANKER": True}}}}
    assert parse_config(content).features_of("a").FEATURE_RERANKER


def test_the_environment_sets_a_tenant_s_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_TENANTS__A__FEATURES__FEATURE_RM3", "false")
    config = parse_config(CONTENT)
    assert (config.features_of("a").FEATURE_RM3, config.features_of("b").FEATURE_RM3) == (False, True)
    assert config.features_of("a").FEATURE_RERANKER
    monkeypatch.setenv("CITELOCK_TENANTS__A__FEATURES__FEATURE_RERANKER", "false")
    assert not parse_config(CONTENT).features_of("a").FEATURE_RERANKER


@pytest.mark.parametrize(
    ("switch", "fault"),
    [("FEATURE_RERANK", "did you mean 'FEATURE_RERANKER'"), ("FEATURE_RAG_PROVENANCE_LOCK", "True")],
)
def test_a_switch_that_cannot_be_is_refused(switch: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        parse_config({"tenants": {"a": {"features": {switch: False}}}})


def test_what_is_changed_for_a_tenant_s_questions_holds_whatever_the_tenant_says() -> None:
    config = parse_config(CONTENT).of_tenant("a")
    assert (config.features.FEATURE_RERANKER, config.keyword.concepts, config.keyword.synonyms) == (
        True,
        ["Home"],
        {"pto": "leave"},
    )
    changed = config.model_copy(update={"features": Features(FEATURE_RERANKER=False)})
    assert not changed.of_tenant("a").features.FEATURE_RERANKER
    assert config.of_tenant("a") == config
    assert config.tenants["b"] == parse_config(CONTENT).tenants["b"]
