"""Text as a reader sees it, whatever its characters: what is searched for words must not be hidden from it."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Letters that look like Latin ones and are not mapped by NFKC: Cyrillic, Greek, Armenian, Cherokee, small capitals.
_ALIKE = (
    "аa вb сc ԁd еe ғf һh іi јj кk ӏl мm нh оo рp ԛq гr ѕs тt уy ѵv ԝw хx ɡg ոn օo սu զq յj ցg հh "
    "αa βb εe ηn ιi κk νv οo ρp τt υu χx ωw ϲc ϳj "
    "ᴀa ʙb ᴄc ᴅd ᴇe ꜰf ɢg ʜh ɪi ᴊj ᴋk ʟl ᴍm ɴn ᴏo ᴘp ʀr ꜱs ᴛt ᴜu ᴠv ᴡw ʏy ᴢz ıi ȷj ɑa ʋv ɩi øo đd łl ħh"
)
_LATIN = {ord(pair[0]): pair[1] for pair in _ALIKE.split()}
_DIGITS = str.maketrans("013457@$", "oieastas")
_SHIFTED = {code: chr(code - 0xE0000) for code in range(0xE0020, 0xE007F)}  # tag characters
_SHIFTED |= {code: chr(code - 0x1F1E6 + ord("a")) for code in range(0x1F1E6, 0x1F200)}  # regional indicators
_SHIFTED |= {code: chr((code - 0x1F130) % 32 + ord("a")) for code in range(0x1F130, 0x1F14A)}  # squared letters
_MARKS = dict.fromkeys("‘’‚‛′`´ʼ＇", "'") | dict.fromkeys("“”„‟″", '"') | {"_": " "}
_TYPED = str.maketrans(_MARKS)
_SPACED = re.compile(r"(?<!\w)(?:\w[^\w\n]{1,2}){5,400}\w(?!\w)")
_LETTERS = re.compile(r"(?<!\w)(?:[^\W\d_][^\w\n]{1,3}){14,2000}[^\W\d_](?!\w)")
_WIDE = re.compile(r"[^\w\n]")
_BETWEEN_LETTERS = re.compile(r"(?<=\w)[^\w\n](?=\w)")
_MIXED = re.compile(r"[a-z]{1,30}[013457@$][a-z0-9@$]{0,30}|[013457@$]{1,4}[a-z][a-z0-9@$]{0,30}")
_UNSEEN = frozenset({"Cf", "Cc", "Co", "Cn", "Cs"})


@lru_cache(maxsize=64)
def readings(text: str) -> tuple[str, ...]:
    """Return the readings of a text, in lower case: as written, and with look-alikes, digits and gaps read as letters.
    Each reading differs from those before it."""
    shown = plain(text)
    latin = _latin(shown)

    def joined(run: re.Match[str]) -> str:
        return " ".join(_BETWEEN_LETTERS.sub("", word) for word in re.split(r"[^\w\n]{2}", run[0]))

    spelt = _MIXED.sub(lambda word: word[0].translate(_DIGITS), latin)
    return tuple(dict.fromkeys((shown, latin, spelt, _SPACED.sub(joined, latin))))


def spelled_out(text: str) -> list[str]:
    """Return words written letter by letter with one gap between all, `i g n o r e y o u r r u l e s`, without gaps."""
    return [_WIDE.sub("", run[0]) for run in _LETTERS.finditer(_latin(plain(text)))]


def plain(text: str) -> str:
    """Lower case, compatibility forms and quotation marks as they are typed, without characters that are not seen."""
    if text.isascii():
        return text.translate(_TYPED).lower()
    shown = unicodedata.normalize("NFKC", text.translate(_SHIFTED))
    shown = "".join(c for c in shown if c in "\n\t" or unicodedata.category(c) not in _UNSEEN)
    return unicodedata.normalize("NFKC", shown).translate(_TYPED).lower()


def _latin(text: str) -> str:
    """Return words that have Latin letters, or only look-alikes, in Latin letters without accents."""
    if text.isascii():
        return text
    bare = "".join(c for c in unicodedata.normalize("NFD", text.translate(_LATIN)) if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", bare)
