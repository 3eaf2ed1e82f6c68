"""What an issuer publishes of itself: OpenID Connect Discovery 1.0, RFC 8414, RFC 7517.

Belongs here: its metadata's address, whether it is the issuer's own, its keys' address. Does not belong here: requests
(`bounded_fetch`), how long keys serve (`key_sets`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_serving.access.bounded_fetch import FetchError, fetch_json
from rag_serving.access.key_sets import KeysDownError
from rag_serving.config.oidc import is_encrypted


def metadata_url(issuer: str) -> str:
    """Return the address of an issuer's metadata."""
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration"


def check_issuer(metadata: Mapping[str, Any], issuer: str, key: str) -> None:
    """Refuse metadata of another issuer. `key`: of the configuration, for the message.

    Raises:
        KeysDownError: it is.
    """
    if metadata.get("issuer") != issuer:
        raise KeysDownError(f"the metadata is of another issuer than {key}, to the letter")


async def published_keys(issuer: str, timeout_s: float) -> dict[str, Any]:
    """Return an issuer's JWK set, found by its metadata.

    Raises:
        KeysDownError: one of the two cannot be had, or is not the issuer's own.
    """
    metadata = await published(metadata_url(issuer), timeout_s)
    check_issuer(metadata, issuer, "serving.jwt.issuer")
    url = metadata.get("jwks_uri")
    if not isinstance(url, str) or not is_encrypted(url):
        raise KeysDownError("the metadata lacks the address of keys, or names one that is not https")
    return await published(url, timeout_s)


async def published(url: str, timeout_s: float) -> dict[str, Any]:
    """Return a JSON object that is published at an address.

    Raises:
        KeysDownError: it cannot be had.
    """
    try:
        status, content = await fetch_json(url, timeout_s)
    except FetchError as error:
        raise KeysDownError(str(error)) from None
    if status != 200:
        raise KeysDownError(f"{url}: HTTP {status}")
    return content
