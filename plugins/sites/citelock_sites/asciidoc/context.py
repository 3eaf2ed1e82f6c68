"""What a page of AsciiDoc knows while it is read.

Belongs here: its attributes, ids, notes, what is lost. Does not belong here: blocks, inline markup.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from citelock_sites.markup import PageSurroundings

INCLUDED_MAX = 2_000_000
"""Characters that the files of one page may bring in."""
ATTRIBUTE_MAX = 10_000  # characters of an attribute's value
BUILT_IN = {
    "nbsp": "&#160;", "zwsp": "&#8203;", "wj": "&#8288;", "amp": "&#38;", "lt": "&#60;", "gt": "&#62;", "empty": "",
    "sp": " ", "blank": "", "apos": "&#39;", "quot": "&#34;", "lsquo": "&#8216;", "rsquo": "&#8217;",
    "ldquo": "&#8220;", "rdquo": "&#8221;", "deg": "&#176;", "plus": "&#43;", "brvbar": "&#166;", "vbar": "|",
    "startsb": "[", "endsb": "]", "caret": "^", "asterisk": "*", "tilde": "~", "backslash": "\\", "backtick": "`",
    "two-colons": "::", "two-semicolons": ";;", "cpp": "C&#43;&#43;", "pp": "&#43;&#43;", "cxx": "C&#43;&#43;",
}  # fmt: skip
REFERENCE = re.compile("\x04([^\x04\x05]*)\x05")  # the title of an id, known when the page is read
_MARKUP = re.compile(r"<[^>]{1,500}>|&(?:[a-z][a-z]+\d{0,2}|#\d\d\d{0,5}|#x[\da-f][\da-f][\da-f]{0,4});")
_NOT_WORD = re.compile(r"[^ \w\-.]", re.ASCII)
_WORD_CATEGORIES = frozenset({"Nd", "Nl", "Pc"})
_REFERENCE = re.compile(r"\\?\{([A-Za-z0-9_][\w-]*)\}")


def _squeezed(text: str, others: str, separator: str) -> Iterator[str]:
    """Yield a text in which each run of some characters is one separator."""
    for is_other, run in groupby(text, others.__contains__):
        yield separator if is_other else "".join(run)


def _id_words(title: str, keeps_marks: bool) -> str:
    """Return what of a heading's HTML its id is made of, in lower case.

    Letters, digits and connectors stay, and in Ruby, whose `[[:word:]]` has them, combining marks. Ruby lowers each
    character by itself.
    """
    if title.isascii():
        return _NOT_WORD.sub("", _MARKUP.sub("", title.lower()))
    lowered = "".join(char.lower() for char in title) if keeps_marks else title.lower()
    return "".join(char for char in _MARKUP.sub("", lowered) if char in " -." or _is_word(char, keeps_marks))


def _is_word(char: str, keeps_marks: bool) -> bool:
    category = unicodedata.category(char)
    return category[0] == "L" or category in _WORD_CATEGORIES or (keeps_marks and category[0] == "M")


@dataclass
class AsciiContext:
    """One page, as it is read."""

    name: str
    around: PageSurroundings
    attributes: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)  # and the titles that references to them show
    footnotes: list[tuple[str, str]] = field(default_factory=list)  # name, text as HTML
    lost: Counter[str] = field(default_factory=Counter)
    read: list[str] = field(default_factory=list)
    left: int = INCLUDED_MAX
    keeps_marks: bool = True  # in ids: Asciidoctor in Ruby does, in JavaScript (Antora) it does not

    def section_id(self, title: str) -> str:
        """Return the id of a heading, as Asciidoctor makes it of its HTML with the titles that are known by then."""
        title = REFERENCE.sub(lambda found: self.ids.get(found[1]) or found[1], title)
        prefix = self.attributes.get("idprefix", "_")
        separator = self.attributes.get("idseparator", "_")[:1]
        name = prefix + _id_words(title, self.keeps_marks)
        if separator:
            others = " .-" if separator in "-." else f" {separator}.-"
            name = "".join(_squeezed(name, others, separator)).removesuffix(separator)
            name = name.removeprefix(separator) if not prefix else name
        else:
            name = name.replace(" ", "")
        return self.unique(name, separator)

    def unique(self, name: str, separator: str) -> str:
        """Return a name that no other id has."""
        found, number = name, 2
        while found in self.ids:
            found, number = f"{name}{separator}{number}", number + 1
        return found

    def value(self, name: str) -> str | None:
        """Return the value of an attribute."""
        lowered = name.lower()
        return self.attributes.get(lowered, BUILT_IN.get(lowered))

    def replaced(self, text: str) -> str:
        """Return a text with the values of the attributes that it names; one without a value stays."""
        if "{" not in text:
            return text
        grown = [0]

        def value(match: re.Match[str]) -> str:
            if match[0][0] == "\\":
                return match[0][1:]
            found = self.value(match[1])
            grown[0] += len(found or "")
            return match[0] if found is None or grown[0] > INCLUDED_MAX else found

        return _REFERENCE.sub(value, text)

    def assign(self, name: str, value: str) -> None:
        """Set an attribute; `name!` and `!name` take it away."""
        bare = name.strip("!").lower()
        if name.startswith("!") or name.endswith("!"):
            self.attributes.pop(bare, None)
        else:
            self.attributes[bare] = self.replaced(value.strip())[:ATTRIBUTE_MAX]
