"""Texts without what must not be kept: the user information of URLs.

Belongs here: what is taken out of logs, notes, metadata and findings. Does not belong here: escaping for a target.
"""

from __future__ import annotations

import re

_USER_INFO = re.compile(r"(?<=://)[^\s/?#@]{1,500}(?:@[^\s/?#@]{0,500})?@(?=[^\s@]|$)")


def redacted(text: str) -> str:
    """Return a text whose URLs name no user and no password: `https://***@wiki.example/x`."""
    return _USER_INFO.sub("***@", text) if "://" in text else text
