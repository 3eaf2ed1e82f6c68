"""Texts without what must not be kept: user information and tokens in URLs, and the values of secret variables."""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

HIDDEN = "***"

_USER_INFO = re.compile(r"(?<=://)[^\s/?#@]{1,500}(?:@[^\s/?#@]{0,500})?@(?=[^\s@]|$)")
_PARAMETER = re.compile(r"(?<=[?&;])([\w.%-]{1,80})=([^\s&;#\"'<>\\]+)")
_SECRET_NAME = re.compile(
    r"token|secret|passw|pwd|passphrase|signature|credential|jwt|api.?key|access.?key|auth(?!type)|^(key|sig|pass|code)$",
    re.IGNORECASE,
)
_PACKED = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{12,2000}={0,2}")
"""What may be base64, as `Authorization: Basic` has it."""
_FEWEST_CHARS = 8
"""A shorter value would be taken out of words that have nothing to do with it."""

_variables: frozenset[str] = frozenset()
_passwords: frozenset[str] = frozenset()


class RedactedError(Exception):
    """An error whose message shows no credentials: the base of those that quote servers and addresses."""

    def __init__(self, *words: object) -> None:
        super().__init__(*(redacted(word) if isinstance(word, str) else word for word in words))


class ConfigError(RedactedError):
    """The configuration cannot be used; the message is one line: where, what, how to mend it."""


def hide(variables: Iterable[str] = (), passwords: Iterable[str] = ()) -> None:
    """Take the values of these environment variables, and these passwords, out of every text from now on."""
    global _variables, _passwords
    _variables |= frozenset(variables)
    _passwords |= frozenset(value for value in passwords if len(value) >= _FEWEST_CHARS)


def redacted(text: str) -> str:
    """Return a text without credentials: `https://***@wiki.example/x?token=***`."""
    if values := _values():
        for value in values:
            text = text.replace(value, HIDDEN)
        text = _PACKED.sub(lambda word: HIDDEN if _holds(word[0], values) else word[0], text)
    if "://" in text:
        text = _USER_INFO.sub(f"{HIDDEN}@", text)
    if "=" in text:
        text = _PARAMETER.sub(_without_secret, text)
    return text


def redacted_values(value: Any) -> Any:
    """Return a JSON value with the credentials in its texts redacted."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {name: redacted_values(one) for name, one in value.items()}
    return [redacted_values(one) for one in value] if isinstance(value, list | tuple) else value


def _without_secret(parameter: re.Match[str]) -> str:
    return f"{parameter[1]}={HIDDEN}" if _SECRET_NAME.search(parameter[1]) else parameter[0]


def _holds(word: str, values: Iterable[str]) -> bool:
    """Return whether a word is base64 of something that is hidden."""
    padded = word.rstrip("=") + "=" * (-len(word.rstrip("=")) % 4)
    try:
        text = b64decode(padded, altchars=b"-_" if "-" in word or "_" in word else None, validate=True).decode()
    except ValueError:
        return False
    return any(value in text for value in values)


def _values() -> list[str]:
    """Return the secrets to redact, the longest first: one may be part of another."""
    secrets = {value for name in _variables for value in _secrets_in(os.environ.get(name, "").strip())}
    return sorted(secrets | _passwords, key=len, reverse=True)


@lru_cache(64)
def _secrets_in(value: str) -> tuple[str, ...]:
    """Return the value, and of a JSON object, such as the tokens of callers, its keys."""
    secrets = [value]
    if value.startswith("{"):
        with suppress(ValueError):
            secrets += json.loads(value)
    return tuple(secret for secret in secrets if len(secret) >= _FEWEST_CHARS)
