"""The clock of a server that jumps by a day, by libfaketime (Debian's package faketime).

Belongs here: the stage; bearer tokens, budgets, audit and receipts across the jump. Does not belong here: clocks that
never go back, which stay as they are.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import jwt

from evals.bench.clients import CITELOCK
from evals.load.installation import PATHS, Installation, body_of
from evals.load.stages import TENANT, Place, SkippedError, Stage

_DAY_S = 86_400
_KEY = "a-key-of-the-load-tool-for-bearer-tokens-0123456789"
_ISSUER, _AUDIENCE = "https://issuer.invalid", "citelock"


def clock_fault(jump: str) -> Callable[[Place], AbstractContextManager[Stage]]:
    """Return the stage of a server whose clock jumps, `+1d` or `-1d`, and back."""

    @contextmanager
    def staged(place: Place) -> Iterator[Stage]:
        place.copy_home()
        clock = place.folder / "clock"
        clock.write_text("+0", encoding="utf-8")
        place.environment |= _faked(clock)
        config = place.config(serving=_SERVING, audit={"mode": "required"}, budgets=_BUDGETS, sessions={"store": True})
        installation = _signed_in(place.installation(config))
        with place.serving(config) as server:
            short: list[int] = []

            def ask_with_short_token() -> None:
                time.sleep(1)
                short.append(_status(server.url, installation, _token(-60, 600)))

            def facts() -> dict[str, Any]:
                after = _status(server.url, installation, _token(-60, 600))
                return {
                    "ten_minute_token_refused_meanwhile": short == [401],
                    "ten_minute_token_accepted_after": after == 200,
                    "audit_verified": _verified(place, config),
                    "receipt_verified": _receipt_verified(server.url, installation),
                }

            yield Stage(
                server, installation, lambda: clock.write_text(jump), lambda: clock.write_text("+0"),
                ask_with_short_token, facts,
            )  # fmt: skip

    return staged


_SERVING = {
    "auth": "jwt",
    "jwt": {"issuer": _ISSUER, "audience": [_AUDIENCE], "key_env": "CITELOCK_LOAD_KEY", "algorithms": ["HS256"]},
}
_BUDGETS = {"questions_per_minute": {"hard": 100_000}, "tokens_per_day": {"hard": 10**9}}


def _faked(clock: Path) -> dict[str, str]:
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not libraries:
        raise SkippedError("libfaketime is not installed: apt-get install faketime")
    return {
        "LD_PRELOAD": str(libraries[0]),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "CITELOCK_LOAD_KEY": _KEY,
    }


def _token(begins_s: float, ends_s: float) -> str:
    """Return a token that is valid from so many seconds from now to so many, by the true clock."""
    now = int(time.time())
    claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": "ann", "tenant_id": TENANT, "roles": ["operator"]}
    return jwt.encode({**claims, "nbf": now + begins_s, "exp": now + ends_s}, _KEY, "HS256")


def _signed_in(asked: Installation) -> Installation:
    """Return the same with a token that is valid on either side of the jump."""
    return Installation(asked.config, asked.tenants, {TENANT: _token(-3 * _DAY_S, 3 * _DAY_S)}, asked.questions)


def _status(url: str, asked: Installation, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    body = body_of("search", asked.questions[0])
    return httpx.post(url + PATHS["search"], json=body, headers=headers, timeout=120).status_code


def _verified(place: Place, config: Path) -> bool:
    command = [*CITELOCK, "audit", "verify", "--config", str(config)]
    return subprocess.run(command, env=place.variables(), capture_output=True, timeout=120).returncode == 0


def _receipt_verified(url: str, asked: Installation) -> bool:
    with httpx.Client(base_url=url, headers=asked.headers(TENANT), timeout=120) as client:
        answer = client.post(PATHS["ask"], json=body_of("ask", asked.questions[0])).json()
        return client.post(f"/v1/receipts/{answer['receipt_id']}/verify").json().get("valid") is True
