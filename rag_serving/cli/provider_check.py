"""What `citelock doctor` finds of the provider where people sign in.

Belongs here: its metadata and keys as they are now. Does not belong here: signing in (`access.provider`), the other
findings (`doctor`).
"""

from __future__ import annotations

import asyncio

from rag_serving.access.provider import Provider, ProviderDownError
from rag_serving.access.token_validation import keys_for
from rag_serving.cli.finding import Finding
from rag_serving.config.oidc import Oidc

_NAME = "sign-in"


def look_at(settings: Oidc) -> Finding:
    """Return whether people could sign in now, as far as can be seen without somebody who does."""
    return asyncio.run(_look(Provider(settings)))


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
