"""A PDF's bytes: the same ones each time the same document is made.

Belongs here: saving, and the file identifier that PDFium draws by lot. Does not belong here: what is in the document.
"""

from __future__ import annotations

import hashlib
import io
import re
from typing import Any

_TAIL = 4096
_IDENTIFIER = re.compile(rb"/ID ?\[<([0-9A-Fa-f]{32})><([0-9A-Fa-f]{32})>\]")


def saved(document: Any) -> bytes:
    """Return the document as a file whose identifier is made from its content.

    ISO 32000-1, 14.4, asks for an identifier that two files hardly share; the digest of the rest is one.
    """
    target = io.BytesIO()
    document.save(target)
    content = target.getvalue()
    found = _IDENTIFIER.search(content, max(len(content) - _TAIL, 0))
    if found is None:
        return content
    rest = content[: found.start()] + content[found.end() :]
    name = hashlib.sha256(rest).hexdigest()[:32].upper().encode()
    (first, end), (second, last) = found.span(1), found.span(2)
    return content[:first] + name + content[end:second] + name + content[last:]
