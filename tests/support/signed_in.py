"""What a browser sends that signed in on the web page, and what it was given."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fastapi.testclient import TestClient
from httpx import Response

OWN = {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8088"}
"""Headers of a browser for what a page of ours sends."""
COOKIE = "citelock_session"


def set_cookies(response: Response) -> dict[str, str]:
    """Return the lines of the cookies that a response sets, by the cookie's name."""
    return {line.partition("=")[0]: line for line in response.headers.get_list("set-cookie")}


def value_of(line: str) -> str:
    """Return the value in a line of `Set-Cookie`."""
    return re.match(r"[^=]+=([^;]*)", line)[1]  # type: ignore[index]


def cookies(*pairs: tuple[str, str]) -> dict[str, str]:
    """Return the header with cookies."""
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in pairs)}


def signed_in(client: TestClient, token: str) -> tuple[dict[str, str], dict[str, str]]:
    """Sign in with a token; return the headers of the page's reads, and those of what it sends."""
    response = client.post("/v1/session", json={"token": token}, headers=OWN)
    assert response.status_code == 200, response.text
    client.cookies.clear()
    reads = cookies((COOKIE, value_of(set_cookies(response)[COOKIE])))
    return reads, {**reads, **OWN, "X-Citelock-CSRF": response.json()["csrf"]}


def without(headers: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return headers less some."""
    return {name: value for name, value in headers.items() if name not in set(names)}
