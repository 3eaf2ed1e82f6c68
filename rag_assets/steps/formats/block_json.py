"""Blocks as JSON: between two processes, and as the body of a file whose structure no markup would keep.

Belongs here: blocks and ledger as arrays, the body format `blocks`. Does not belong here: what makes them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rag_assets.steps.formats.blocks import Block, Content, Link, Listing, Reference
from rag_assets.steps.formats.element_tree import PageError

_DEFAULTS = Block("paragraph", "")


def blocks_body(content: Content) -> str:
    """Return a body of the format `blocks`."""
    return json.dumps(content_to_json(content), ensure_ascii=False, separators=(",", ":"))


def blocks_content(body: str) -> Content:
    """Return the blocks of such a body; an empty one has none. Raises PageError where it is something else."""
    if not body:
        return Content([], Counter())
    try:
        content = content_of_json(json.loads(body))
    except (ValueError, RecursionError):
        content = None
    if content is None:
        raise PageError("its stored blocks cannot be read")
    return content


def content_to_json(content: Content | None) -> Any:
    """Return blocks and ledger as JSON can hold them; named tuples are written as arrays."""
    if content is None:
        return None
    ledger = [[*key, count] for key, count in content.ledger.items()]
    return {"blocks": [*map(_fields, content.blocks)], "ledger": ledger, "cut": content.cut}


def _fields(block: Block) -> Sequence[Any]:
    """Return the fields up to the last one that is not as it is by default: most blocks have kind and text alone."""
    last = len(block)
    while last > 2 and block[last - 1] == _DEFAULTS[last - 1]:
        last -= 1
    return block[:last]


def content_of_json(payload: Any) -> Content | None:
    """Return what `content_to_json` was given.

    Raises:
        ValueError: it is something else.
    """
    if payload is None:
        return None
    try:
        blocks = [_block(fields) for fields in payload["blocks"]]
        ledger = Counter({(str(macro), str(outcome)): int(count) for macro, outcome, count in payload["ledger"]})
        return Content(blocks, ledger, payload["cut"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise ValueError("it holds something else than blocks") from None


def _block(fields: Sequence[Any]) -> Block:
    block = Block(*fields)
    reference, listing = block.reference, block.listing
    if not (reference or listing or block.links or block.anchors or block.breaks):
        return block._replace(anchors=(), links=(), breaks=())
    return block._replace(
        anchors=tuple(block.anchors),
        breaks=tuple((int(at), int(page)) for at, page in block.breaks),
        reference=Reference(*reference) if reference else None,
        listing=_listing(listing) if listing else None,
        links=tuple(Link(*link) for link in block.links),
    )


def _listing(fields: Sequence[Any]) -> Listing:
    listing = Listing(*fields)
    if not isinstance(listing.parameters, Mapping):
        raise TypeError
    return listing
