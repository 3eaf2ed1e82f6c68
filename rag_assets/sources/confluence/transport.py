"""One HTTP request to Confluence: the only module that knows `atlassian-python-api`.

Belongs here: sending one signed request and handing back the raw reply.
Does not belong here: retries, pagination, or what an answer means (`client`).

Of the package only `AtlassianRestAPI.request` is used. Its signing and session are the same code for Cloud and Data
Center, and the tests run it against a stand-in of both. The rest is left alone on purpose. In 5.0.5 the two halves of
`Confluence(...)` page differently, its `Retry-After` handling retries once (`max_retry_with_header_attempts`), its
`timeout` is cut to whole seconds, and `get_all_pages_from_space` follows a link that the server wrote.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rag_assets.sources.base import SourceError
from rag_serving.config.sources import Auth, BasicAuth, BearerAuth

if TYPE_CHECKING:
    from rag_assets.sources.bounded_http import Limits


class Unreachable(Exception):  # noqa: N818
    """No reply came; `slow` tells a time limit or a broken answer from a server that is not there."""

    def __init__(self, message: str, *, slow: bool) -> None:
        super().__init__(message)
        self.slow = slow


@dataclass(frozen=True)
class Reply:
    """What came back, whatever it was."""

    status: int
    headers: Mapping[str, str]  # case-insensitive
    content: bytes


class Transport(Protocol):
    """Sends one GET request; `signs_in` tells whether as somebody.

    Raises:
        Unreachable: nothing comes back.
        RefusedError: it leads to a host that may not be asked, or answers more than it may.
    """

    signs_in: bool

    def __call__(self, path: str, params: Mapping[str, str]) -> Reply: ...

    def close(self) -> None:
        """Give back the connections."""
        ...


class AtlassianTransport:
    """Requests by `atlassian-python-api`, signed for a site."""

    def __init__(self, base_url: str, auth: Auth, timeout_s: float, limits: Limits | None = None) -> None:
        from atlassian.rest_client import AtlassianRestAPI

        from rag_assets.sources.bounded_http import Limits, bound

        user, password, token = _credentials(auth)
        self._api = AtlassianRestAPI(
            base_url.rstrip("/"), username=user, password=password, token=token, retry_with_header=False
        )
        bound(self._api._session, limits or Limits(base_url))
        self.signs_in = auth.kind != "none"
        self._api.timeout = timeout_s  # type: ignore[assignment]  # its own argument cuts half a second to none

    def __call__(self, path: str, params: Mapping[str, str]) -> Reply:
        import requests
        from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema

        from rag_assets.sources.bounded_http import RefusedError

        try:
            response = self._api.request("GET", path=path, params=dict(params), advanced_mode=True)
        except (requests.TooManyRedirects, InvalidSchema, InvalidURL, MissingSchema) as error:
            raise RefusedError(_first_line(error)) from None
        except (requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            raise Unreachable(_first_line(error), slow=True) from None
        except requests.RequestException as error:
            raise Unreachable(_first_line(error), slow=False) from None
        return Reply(response.status_code, response.headers, response.content)

    def close(self) -> None:
        self._api.close()


def _credentials(auth: Auth) -> tuple[str | None, str | None, str | None]:
    """User, password, and token, as far as the kind of sign-in has them."""
    if isinstance(auth, BasicAuth):
        return _secret(auth.user_env), _secret(auth.token_env), None
    return None, None, _secret(auth.token_env) if isinstance(auth, BearerAuth) else None


def _secret(variable: str) -> str:
    value = os.environ.get(variable, "").strip()
    if not value:
        raise SourceError(f"environment variable {variable} is not set; it holds what signs in to Confluence")
    return value


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
