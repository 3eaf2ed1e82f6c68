"""Keys of the section `keyword` that are otherwise for one tenant."""

from __future__ import annotations

import pytest

from rag_serving.config.loading import ConfigError, parse_config
from rag_serving.config.sections import Keyword

CONTENT = {
    "keyword": {"concepts": ["Home"], "synonyms": {"shortcuts": "quick links"}},
    "tenants": {"a": {"keyword": {"synonyms": {"pto": "leave"}}}, "b": {}},
}


def test_what_a_tenant_says_stands_over_what_all_have() -> None:
    own = parse_config(CONTENT).keyword_of("a")
    assert (own.synonyms, own.concepts) == ({"pto": "leave"}, ["Home"])


def test_others_are_as_all_are() -> None:
    config = parse_config(CONTENT)
    assert config.keyword_of("b") == config.keyword_of("unknown") == config.keyword
    assert parse_config({"tenants": {"a": {}}}).keyword_of("a") == Keyword()


def test_a_value_that_is_the_built_in_default_is_a_tenant_s_own_too() -> None:
    content = {"keyword": {"concepts": ["Home"]}, "tenants": {"a": {"keyword": {"concepts": []}}}}
    assert parse_config(content).keyword_of("a").concepts == []


def test_the_environment_sets_a_tenant_s_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_TENANTS__A__KEYWORD__CONCEPTS", '["Panel"]')
    own = parse_config(CONTENT).keyword_of("a")
    assert (own.synonyms, own.concepts) == ({"pto": "leave"}, ["Panel"])


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'tenants.a.keyword.concept'; did you mean 'concepts'"):
        parse_config({"tenants": {"a": {"keyword": {"concept": ["Home"]}}}})
