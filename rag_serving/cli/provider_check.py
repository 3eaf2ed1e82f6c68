"""What `citelock doctor` finds of identity providers: where people sign in, and whose bearer tokens are believed.

Belongs here: their metadata and keys as they are now. Does not belong here: signing in (`access.provider`), tokens
(`access.bearer_tokens`), the other findings (`doctor`).
"""

from __future__ import annotations

import asyncio

from rag_serving.access.bearer_tokens import BearerTokens
from rag_serving.access.key_sets import KeysDownError
from rag_serving.access.provider import Provider, ProviderDownError
from rag_serving.access.token_validation import keys_for
from rag_serving.cli.finding import Finding
from rag_serving.config.jwt import Jwt
from rag_serving.config.loading import ConfigError
from rag_serving.config.oidc import Oidc

_NAME, _ISSUER = "sign-in", "bearer tokens"


def look_at(settings: Oidc) -> Finding:
    """Return whether people could sign in now, as far as can be seen without somebody who does."""
    return asyncio.run(_look(Provider(settings)))


def look_at_issuer(settings: Jwt) -> Finding:
    """Return whether bearer tokens of an issuer could be verified now."""
    try:
        return asyncio.run(_look_at_keys(BearerTokens(settings, [])))
    except ConfigError as error:
        return Finding(_ISSUER, "fail", str(error), "`citelock serve` refuses to start until then")


async def _look_at_keys(tokens: BearerTokens) -> Finding:
    issuer = tokens.settings.issuer
    try:
        keys = await tokens.keys.all()
    except KeysDownError as error:
        return Finding(_ISSUER, "fail", f"{issuer}: {error}", "mend serving.jwt, or start the issuer")
    usable = {name for name in tokens.expected.algorithms if keys_for(keys, name, None)}
    detail = f"{issuer}, {len(keys)} keys for {', '.join(sorted(usable)) or 'no algorithm that is believed'}"
    if not usable:
        return Finding(_ISSUER, "fail", detail, "set serving.jwt.algorithms to what the issuer signs with")
    return Finding(_ISSUER, "ok", detail)


async def _look(provider: Provider) -> Finding:
    settings = provider.settings
    try:
        metadata = await provider.metadata()
        keys = await provider.keys()
    except ProviderDownError as error:
        return Finding(_NAME, "fail", f"{settings.issuer}: {error}", "mend serving.oidc.issuer, or start the provider")
    usable = {name for name in settings.algorithms if keys_for(keys, name, None)}
    detail = f"{settings.issuer}, {len(keys)} keys for {', '.join(sorted(usable)) or 'no algorithm that is believed'}"
    if not usable:
        return Finding(_NAME, "fail", detail, "set serving.oidc.algorithms to what the provider signs with")
    if not metadata.has_pkce:
        return Finding(_NAME, "warn", f"{detail}; it does not know PKCE with S256", "see the provider's settings")
    return Finding(_NAME, "ok", detail)
