"""Tables in the head of an RTF file: fonts with their character sets, styles with their levels.

Belongs here: what a paragraph of a style is, which bytes a font means. Does not belong here: text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from citelock_formats.rtf_tokens import charset
from rag_assets.steps.files.office.word_styles import heading_level, is_code

_DEPTH_MAX = 30


@dataclass
class _Style:
    outline: int | None = None
    below: int | None = None
    name: str = ""


@dataclass
class RtfHead:
    """Fonts and styles of one file, gathered as their tables are read."""

    codecs: dict[int, str] = field(default_factory=dict)
    _styles: dict[int, _Style] = field(default_factory=dict)
    _font: int = 0
    _style: _Style = field(default_factory=_Style)

    def font(self, word: str, number: int | None) -> None:
        """Take a control word of the table of fonts."""
        if word == "f":
            self._font = number or 0
        elif word == "fcharset" and (codec := charset(number)) is not None:
            self.codecs[self._font] = codec

    def style(self, word: str, number: int | None) -> None:
        """Take a control word of the table of styles."""
        if word == "s":
            self._style = self._styles[number or 0] = _Style()
        elif word in ("cs", "ts", "ds"):
            self._style = _Style()
        elif word == "outlinelevel":
            self._style.outline = number
        elif word == "sbasedon":
            self._style.below = number

    def style_name(self, text: str) -> None:
        """Take text of the table of styles."""
        self._style.name += text

    def level(self, style: int, outline: int | None) -> int:
        """Return the level of a heading; 0 for what is none."""
        chain = self._chain(style)
        outlines = (outline, *(each.outline for each in chain))
        found = next((each for each in outlines if each is not None and 0 <= each <= 9), None)
        return heading_level(found, [each.name.strip(" ;") for each in chain])

    def is_code(self, style: int) -> bool:
        """Return whether paragraphs of a style are code."""
        return is_code([each.name.strip(" ;") for each in self._chain(style)])

    def _chain(self, style: int) -> list[_Style]:
        chain: list[_Style] = []
        number: int | None = style
        while number is not None and (found := self._styles.get(number)) is not None and len(chain) < _DEPTH_MAX:
            chain.append(found)
            number = found.below
        return chain
