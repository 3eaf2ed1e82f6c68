"""A font in which every character is the same empty box, half as wide as it is high.

Belongs here: the font file, and the tables that tell a PDF which character a code means.
Does not belong here: putting text on a page (`searchable`).
"""

from __future__ import annotations

import io
from functools import cache
from typing import Any

ADVANCE = 0.5
"""Of each character, in sizes of the font."""
DESCENT = 0.2
"""Of the box below the baseline, in sizes of the font."""
_UNITS = 1000
_CODES = 0x10000

# A code is the character itself, in UTF-16 (Adobe Technical Note 5411).
_TO_UNICODE = b"""/CIDInit /ProcSet findresource begin
12 dict begin
begincmap
/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def
/CMapName /Adobe-Identity-UCS def
/CMapType 2 def
1 begincodespacerange
<0000> <FFFF>
endcodespacerange
1 beginbfrange
<0000> <FFFF> <0000>
endbfrange
endcmap
CMapName currentdict /CMap defineresource pop
end
end
"""


def load_font(document: Any) -> Any:
    """Return the font, added to a document; its codes are UTF-16 units."""
    import ctypes

    from pypdfium2 import raw

    font, glyphs = _font_file(), b"\x00\x01" * _CODES
    loaded = raw.FPDFText_LoadCidType2Font(
        document,
        (ctypes.c_ubyte * len(font)).from_buffer_copy(font),
        len(font),
        ctypes.create_string_buffer(_TO_UNICODE),
        (ctypes.c_ubyte * len(glyphs)).from_buffer_copy(glyphs),
        len(glyphs),
    )
    if not loaded:
        raise RuntimeError("PDFium takes no font")
    return loaded


@cache
def _font_file() -> bytes:
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    top, bottom, right = round((1 - DESCENT) * _UNITS), round(-DESCENT * _UNITS), round(ADVANCE * _UNITS)
    pen = TTGlyphPen(None)
    pen.moveTo((0, bottom))
    for corner in ((0, top), (right, top), (right, bottom)):
        pen.lineTo(corner)
    pen.closePath()
    box = pen.glyph()
    builder = FontBuilder(_UNITS, isTTF=True)
    builder.setupGlyphOrder([".notdef", "box"])
    builder.setupCharacterMap({})
    builder.setupGlyf({".notdef": box, "box": box})
    builder.setupHorizontalMetrics({".notdef": (right, 0), "box": (right, 0)})
    builder.setupHorizontalHeader(ascent=top, descent=bottom)
    builder.setupOS2(sTypoAscender=top, sTypoDescender=bottom, usWinAscent=top, usWinDescent=-bottom)
    builder.setupNameTable({"familyName": "Invisible", "styleName": "Regular", "psName": "Invisible"})
    builder.setupPost(keepGlyphNames=False)
    builder.font["head"].created = builder.font["head"].modified = 0  # the same file each time
    builder.font.recalcTimestamp = False
    target = io.BytesIO()
    builder.save(target)
    return target.getvalue()
