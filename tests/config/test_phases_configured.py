"""Which phase a tenant's questions are asked in, by file and by environment."""

from __future__ import annotations

from typing import Any

import pytest

from rag_serving.config.loading import ConfigError, parse_config
from rag_serving.config.phases import PhaseSettings


def settings(content: dict[str, Any], tenant: str = "a") -> PhaseSettings:
    return parse_config({"tenants": {"a": {}, "b": {}}, **content}).phases_of(tenant)


def test_all_three_phases_are_on_unless_something_else_is_said() -> None:
    assert settings({}) == PhaseSettings(enabled=True, phase=3)
    assert settings({}, "unknown") == PhaseSettings()


def test_a_tenant_s_own_stands_over_all_tenants() -> None:
    content = {"retrieval": {"phase": 2}, "tenants": {"a": {"retrieval": {"enabled": False}}, "b": {}}}
    assert settings(content) == PhaseSettings(enabled=False, phase=2)
    assert settings(content, "b") == PhaseSettings(phase=2)


@pytest.mark.parametrize(("given", "enabled"), [("false", False), ("0", False), ("true", True), ("", True)])
def test_the_environment_stands_over_every_tenant(monkeypatch: pytest.MonkeyPatch, given: str, enabled: bool) -> None:
    monkeypatch.setenv("DOC_RETRIEVAL_ENABLED", given)
    monkeypatch.setenv("DOC_RETRIEVAL_PHASE", "1")
    content = {"tenants": {"a": {"retrieval": {"phase": 3, "enabled": True}}, "b": {}}}
    assert settings(content) == settings(content, "b") == PhaseSettings(enabled=enabled, phase=1)


def test_a_key_of_ours_in_the_environment_is_the_top_level_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_RETRIEVAL__PHASE", "2")
    content = {"tenants": {"a": {"retrieval": {"phase": 3}}, "b": {}}}
    assert (settings(content).phase, settings(content, "b").phase) == (3, 2)


@pytest.mark.parametrize("value", ["4", "two", "0"])
def test_a_phase_that_is_none_names_its_variable(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("DOC_RETRIEVAL_PHASE", value)
    with pytest.raises(ConfigError, match="DOC_RETRIEVAL_PHASE"):
        settings({})


@pytest.mark.parametrize(
    ("canary", "message"),
    [
        ({"spaces": ["OPS"]}, "features: Field required"),
        ({"share": 0.1}, "'retrieval.canary.share' is now replaced by spaces"),
        ({"features": {"FEATURE_RM4": True}, "spaces": ["OPS"]}, "FEATURE_RM4"),
        ({"features": {"FEATURE_RAG_PROVENANCE_LOCK": False}, "spaces": ["OPS"]}, "True"),
    ],
)
def test_a_trial_that_cannot_be_is_refused(canary: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings({"retrieval": {"canary": canary}})


def test_a_trial_can_be_one_tenant_s() -> None:
    content = {
        "tenants": {"a": {"retrieval": {"canary": {"features": {"FEATURE_RM3": True}, "spaces": ["OPS"]}}}, "b": {}}
    }
    assert settings(content).canary is not None
    assert settings(content, "b").canary is None


def test_what_is_measured_is_searched_in_full_whatever_readers_are_asked_in() -> None:
    off = {"enabled": False, "phase": 1}
    config = parse_config({"retrieval": {**off, "dense_k": 7}, "tenants": {"a": {"retrieval": off}}})
    assert config.searched_in_full().phases_of("a") == PhaseSettings()
    assert config.searched_in_full().retrieval.dense_k == 7
