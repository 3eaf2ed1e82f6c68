"""From the claims of a validated token to a principal. What is missing, unknown or odd lets nobody in.

Belongs here: reading claims as the configuration names them. Does not belong here: whether a token is genuine
(`token_validation`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rag_serving.access.principals import READER, Principal
from rag_serving.config.serving import ClaimMapping

MAX_NAME_CHARS = 500
MAX_NAMES = 2000
"""Groups of one user; who has more is not signed in with a part of them."""


class ClaimsError(Exception):
    """The claims name nobody who may sign in; the message is for the log and shows no value."""


def principal_of(claims: Mapping[str, Any], settings: ClaimMapping, tenants: Collection[str]) -> Principal:
    """Return the principal of a validated token.

    Args:
        tenants: the configured ones.

    Raises:
        ClaimsError: no known tenant, no user, or a claim of another type than its use.
    """
    named = settings.claims
    user = _name(_claim(claims, named.user), named.user)
    if named.user == "email" and claims.get("email_verified") is not True:
        raise ClaimsError("the claim email counts only where email_verified is true")
    groups = frozenset(_names(_claim(claims, named.groups), named.groups)) if named.groups else frozenset[str]()
    values = _names(_claim(claims, named.roles), named.roles) if named.roles else []
    roles = frozenset(role for value in values for role in settings.roles.get(value, ()))
    return Principal(_tenant(claims, settings, tenants), user, groups, READER | roles)


def _tenant(claims: Mapping[str, Any], settings: ClaimMapping, tenants: Collection[str]) -> str:
    claim = settings.claims.tenant
    value = _claim(claims, claim) if claim else None
    if value is None:
        tenant = settings.tenant
    else:
        named = _name(value, claim or "")
        tenant = settings.tenants.get(named, named)
    if tenant is None or tenant not in tenants:
        raise ClaimsError("no claim names a tenant" if value is None else "the tenant is not configured")
    return tenant


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return the value of a claim: of this name, else along its parts; None if there is none."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _names(value: Any, claim: str) -> list[str]:
    if value is None:
        return []
    listed = value if isinstance(value, list) else [value]
    if len(listed) > MAX_NAMES:
        raise ClaimsError(f"the claim {claim} has more than {MAX_NAMES} values")
    return [_name(each, claim) for each in listed]


def _name(value: Any, claim: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME_CHARS or not value.isprintable():
        raise ClaimsError(f"the claim {claim} is missing, or is no name")
    return value
