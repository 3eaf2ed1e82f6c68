"""The tokens of `serving.tokens_env`: whose each is.

Belongs here: reading and checking them. Does not belong here: which one a request shows (`credentials`).
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from rag_serving.access.principals import Principal
from rag_serving.api.wire import first_fault
from rag_serving.config.loading import Config, ConfigError
from rag_serving.config.serving import Role
from rag_serving.hooks import GOVERNANCE
from rag_serving.plugins import HOOKS, loaded, missing


class TokenHolder(BaseModel):
    """The principal of a token, according to `serving.tokens_env`."""

    tenant: str
    user: str | None = None
    groups: frozenset[str] = frozenset()
    roles: frozenset[Role] = frozenset({"reader"})
    user_header: str | None = Field(None, pattern=r"^[A-Za-z0-9-]{1,100}$")  # of a server that asks for its users
    resource: str | None = Field(None, pattern=r"^https?://[^\s?#]+$")  # the only address that it opens (RFC 8707)

    @model_validator(mode="after")
    def _one_user(self) -> Self:
        if self.user and self.user_header:
            raise ValueError("a token is of a user, or has a user_header that names one, not both")
        return self

    @property
    def principal(self) -> Principal:
        """The principal behind the token."""
        return Principal(self.tenant, self.user, self.groups, frozenset(self.roles))


def read_tokens(config: Config) -> Mapping[str, TokenHolder]:
    """Return holders by the digest of their token, so that looking one up takes the same time for every wrong token.

    Raises:
        ConfigError: they cannot be used, or mode `tokens` has none and nobody can sign in.
    """
    variable = config.serving.tokens_env
    content = os.environ.get(variable)
    if not content and (config.serving.oidc is not None or config.serving.jwt is not None):
        return {}
    if not content:
        raise ConfigError(
            f"serving.auth 'tokens' needs {variable}: a JSON object of token: {{tenant, user, groups, roles}}; {{}} "
            "where all have keys of `citelock keys`"
        )
    try:
        holders = TypeAdapter(dict[str, TokenHolder]).validate_json(content)
    except ValidationError as error:
        fault = first_fault(error.errors(include_input=False, include_url=False), skip=1)  # the token itself
        raise ConfigError(
            f"{variable} is not a JSON object of token: {{tenant, user, groups, roles}} ({fault})"
        ) from None
    is_alone = config.serving.oidc is None and config.serving.jwt is None
    if not holders and is_alone and "keys" not in loaded(HOOKS):
        raise missing(f"{variable}: {{}}, where all have keys of `citelock keys`,", GOVERNANCE)
    for holder in holders.values():
        if holder.tenant not in config.tenants:
            raise ConfigError(f"{variable}: tenant {holder.tenant!r} is not configured")
        if holder.resource and not config.serving.public_url:
            raise ConfigError(f"{variable}: a token has a resource; set serving.public_url, by which it is compared")
    return {token_digest(token): holder for token, holder in holders.items()}


def token_digest(token: str) -> str:
    """Return the key of a token, under which its holder is counted."""
    return hmac.new(b"citelock", token.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
