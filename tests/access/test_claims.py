"""Claims, whatever they hold, become a principal of a configured tenant or nobody."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.access.principals import READER, ROLES, Principal
from rag_serving.access.token_validation import ClaimsError, principal_of
from rag_serving.config.serving import Oidc

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["acme", "editors", "other"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
NAMED = st.sampled_from(["sub", "tenant", "groups", "roles", "realm", "email"])
SETTINGS = Oidc.model_validate(
    {
        "issuer": "https://id.example",
        "client_id": "citelock",
        "claims": {"roles": "roles"},
        "tenants": {"other": "acme", "old": "gone"},
        "roles": {"editors": ["editor"]},
    }
)


@given(st.dictionaries(NAMED, JSON))
def test_whatever_is_claimed_gives_no_more_than_is_configured(claims: dict[str, object]) -> None:
    try:
        principal = principal_of(claims, SETTINGS, ["acme"])
    except ClaimsError:
        return
    assert principal.tenant == "acme"
    assert claims["tenant"] in ("acme", "other")
    assert principal.user == claims["sub"]
    assert principal.roles <= READER | {"editor"} < ROLES
    assert all(isinstance(group, str) and group for group in principal.groups)


def test_a_claim_is_found_by_its_name_and_along_its_parts() -> None:
    settings = Oidc.model_validate(
        {
            "issuer": "https://id.example",
            "client_id": "c",
            "tenant": "acme",
            "claims": {"user": "https://id.example/name", "groups": "realm.groups"},
        }
    )
    claims = {"https://id.example/name": "ann", "realm": {"groups": ["hr", "ops"]}}
    assert principal_of(claims, settings, ["acme"]) == Principal("acme", "ann", frozenset({"hr", "ops"}))
    exact = {**claims, "realm.groups": "hr"}
    assert principal_of(exact, settings, ["acme"]).groups == {"hr"}


def test_a_tenant_that_is_mapped_and_not_configured_is_refused() -> None:
    with pytest.raises(ClaimsError, match="tenant"):
        principal_of({"sub": "ann", "tenant": "old"}, SETTINGS, ["acme"])
