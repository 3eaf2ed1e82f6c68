"""Names of uploaded files as they are kept and shown: foreign text, never a path.

Belongs here: which characters stay, how long a name may be. Does not belong here: where bytes lie
(`artifacts.document_files`).
"""

from __future__ import annotations

import re
import unicodedata

MAX_CHARS = 200
MAX_BYTES = 255
"""Of a name in UTF-8, as file systems count."""
NAMELESS = "document"

_SPACES = re.compile(r"\s+")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS = frozenset({"\u200c", "\u200d"})  # Persian, Indic scripts and emoji are written with them


def safe_name(name: str) -> str:
    """Return a file's name on one line, without folders, control characters and changes of direction, in NFC.

    A longer one is cut before its ending. One of which nothing is left is `document`.
    """
    own = (name if len(name) < 16 * MAX_CHARS else _ends(name)).replace("\\", "/").rpartition("/")[2]
    kept = "".join(" " if char.isspace() else char for char in own if char.isspace() or _is_shown(char))
    plain = _SPACES.sub(" ", unicodedata.normalize("NFC", kept)).strip(" .")
    return _cut(plain or NAMELESS)


def _is_shown(char: str) -> bool:
    return char in _JOINERS or unicodedata.category(char) not in _HIDDEN


def _ends(name: str) -> str:
    """Return beginning and end of a name that is far too long."""
    return name[: 8 * MAX_CHARS] + name[-8 * MAX_CHARS :]


def _cut(name: str) -> str:
    if len(name) <= MAX_CHARS and len(name.encode()) <= MAX_BYTES:
        return name
    stem, dot, extension = name.rpartition(".")
    ending = f"{dot}{extension}" if stem and len(extension.encode()) <= 16 else ""
    stem = stem if ending else name
    kept = stem[: MAX_CHARS - len(ending)].encode()[: MAX_BYTES - len(ending.encode())].decode("utf-8", "ignore")
    return kept.rstrip(" .") + ending
