"""The ids of headings, as MkDocs makes them of their words.

Belongs here: the rules of Python-Markdown and of pymdown, duplicates included.
Does not belong here: finding headings, ids that authors write (`rag_assets.sources.sites.markdown_page`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote

_NOT_PYMDOWN = re.compile(r"[^\w\- ]")
_SPACES = re.compile(r"\s+")
_NOT_WORD = re.compile(r"[^\w\s-]")
_FORMS: Mapping[object, Literal["NFC", "NFD", "NFKC", "NFKD"]] = MappingProxyType(
    {"NFC": "NFC", "NFD": "NFD", "NFKC": "NFKC", "NFKD": "NFKD"}
)
_NUMBERED = re.compile(r"(.*)_([0-9]+)", re.DOTALL)


def mkdocs_slug(text: str, separator: str = "-", *, keep_unicode: bool = False) -> str:
    """Return a heading's slug as Python-Markdown's `toc` makes it (`slugify`, `slugify_unicode`)."""
    value = text
    if not keep_unicode:
        value = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    value = _NOT_WORD.sub("", value).strip().lower()
    return _SPACES.sub(lambda _: separator, value.translate(dict.fromkeys(map(ord, separator), " ")))


class MkdocsSlugger:
    """Python-Markdown's ids: a repeated one takes `_1`, `_2`; those that authors write come first on the page."""

    def __init__(self, used: Iterable[str] = (), separator: str = "-", *, keep_unicode: bool = False) -> None:
        self._used = set(used)
        self._separator, self._keep_unicode = separator, keep_unicode

    def base(self, text: str) -> str:
        """Return the id of a heading before it is made unique."""
        return mkdocs_slug(text, self._separator, keep_unicode=self._keep_unicode)

    def slug(self, text: str) -> str:
        """See `rag_assets.sources.sites.markdown_page.Slugger`."""
        name = self.base(text)
        while name in self._used or not name:
            match = _NUMBERED.fullmatch(name)
            name = f"{match[1]}_{int(match[2]) + 1}" if match and len(match[2]) < 10 else f"{name}_1"
        self._used.add(name)
        return name

    def written(self, name: str) -> str:
        """See `rag_assets.sources.sites.markdown_page.Slugger`."""
        self._used.add(name)
        return name


def _without_tags(text: str) -> str:
    """Return a text without the parts between `<` and the next `>`."""
    parts, at = [], 0
    while (begin := text.find("<", at)) >= 0 and (end := text.find(">", begin)) >= 0:
        parts.append(text[at:begin])
        at = end + 1
    return "".join([*parts, text[at:]])


class PymdownSlugger(MkdocsSlugger):
    """The ids of `pymdownx.slugs.slugify`, which keeps letters of all scripts; `options` are its arguments."""

    def __init__(self, used: Iterable[str], separator: str, options: Mapping[str, object]) -> None:
        super().__init__(used, separator)
        self._options = options

    def base(self, text: str) -> str:
        """See `MkdocsSlugger`."""
        case, form = self._options.get("case"), self._options.get("normalize")
        value = unicodedata.normalize(_FORMS.get(str(form), "NFC"), text)
        value = _without_tags(value).strip()
        if case == "lower":
            value = value.lower()
        elif case == "fold":
            value = value.casefold()
        elif case == "lower-ascii":
            value = "".join(char.lower() if char.isascii() else char for char in value)
        name = _NOT_PYMDOWN.sub("", value).replace(" ", self._separator)
        return quote(name) if self._options.get("percent_encode") is True else name
