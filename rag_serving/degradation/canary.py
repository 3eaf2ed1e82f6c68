"""For whom something is tried out: a share of the users, or the questions of some spaces.

Belongs here: choosing. Does not belong here: what they are asked with (`rag_serving.pipeline.phases`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from rag_serving.config.phases import Canary

_BITS = 64


def is_chosen(canary: Canary, tenant: str, user: str | None, spaces: Sequence[str] = ()) -> bool:
    """Return whether a question is one of those that something is tried out on; `spaces`: what it is narrowed to."""
    if spaces and {space.casefold() for space in spaces} <= {space.casefold() for space in canary.spaces}:
        return True
    if canary.share >= 1:
        return True
    if user is None or not canary.share:
        return False
    # What is tried out is part of the hash, so that it is not always the same users who try things out.
    tried = [tenant, canary.phase, sorted(canary.features.items()), user]
    digest = hashlib.sha256(json.dumps(tried).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[: _BITS // 8], "big") < canary.share * float(2**_BITS)
