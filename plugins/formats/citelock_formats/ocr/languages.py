"""Which languages an engine is to read a document in.

Belongs here: tesseract's codes, by language and by script. Does not belong here: asking the engine (`recognition`).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from rag_serving.models.language_detector import shares_of_languages

AT_ONCE = 3
"""Languages that a page is read in while its own is not known; each makes it slower."""

_CODES = MappingProxyType(
    {
        **{"ar": ("ara",), "bg": ("bul",), "ca": ("cat",), "cs": ("ces",), "da": ("dan",), "de": ("deu",)},
        **{"el": ("ell",), "en": ("eng",), "es": ("spa",), "et": ("est",), "fa": ("fas",), "fi": ("fin",)},
        **{"fr": ("fra",), "he": ("heb",), "hi": ("hin",), "hr": ("hrv",), "hu": ("hun",), "id": ("ind",)},
        **{"it": ("ita",), "ja": ("jpn",), "ko": ("kor",), "lt": ("lit",), "lv": ("lav",), "nl": ("nld",)},
        **{"no": ("nor",), "pl": ("pol",), "pt": ("por",), "ro": ("ron",), "ru": ("rus",), "sk": ("slk",)},
        **{"sl": ("slv",), "sr": ("srp", "srp_latn"), "sv": ("swe",), "th": ("tha",), "tr": ("tur",)},
        **{"uk": ("ukr",), "vi": ("vie",), "zh": ("chi_sim", "chi_tra")},
    }
)
"""Tesseract's codes of a language of ISO 639-1."""
_SCRIPTS = MappingProxyType(
    {
        "Arabic": frozenset({"ara", "fas"}),
        "Cyrillic": frozenset({"bul", "rus", "srp", "ukr"}),
        "Devanagari": frozenset({"hin"}),
        "Greek": frozenset({"ell"}),
        "Han": frozenset({"chi_sim", "chi_tra", "jpn"}),
        "Hangul": frozenset({"kor"}),
        "Hebrew": frozenset({"heb"}),
        "Japanese": frozenset({"jpn"}),
        "Korean": frozenset({"kor"}),
        "Thai": frozenset({"tha"}),
    }
)
"""What each script is read with; all else is Latin."""


def first_languages(installed: Sequence[str], script: str) -> tuple[str, ...]:
    """Return the languages that a document's first page is read in: of its script, English first, `AT_ONCE` at most."""
    others = frozenset[str]().union(*_SCRIPTS.values())
    of_script = _SCRIPTS.get(script)
    fitting = [name for name in installed if (name in of_script if of_script else name not in others)]
    return tuple(sorted(fitting or installed, key=lambda name: (name != "eng", name))[:AT_ONCE])


def language_of(text: str, installed: Sequence[str]) -> tuple[str, ...]:
    """Return the installed language that a text is in; nothing where that is none of them, or cannot be told."""
    likeliest = next(iter(shares_of_languages([text])), "")
    return tuple(name for name in _CODES.get(likeliest, ()) if name in installed)
