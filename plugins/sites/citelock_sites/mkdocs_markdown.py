"""Additions of MkDocs' extensions to Markdown, rewritten as plain Markdown."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote

from rag_assets.sources.sites.markdown_page import end_of, fence_run, opening, outside
from rag_assets.sources.sites.site import SourceTree, resolved, text_of
from rag_assets.steps.files.records import FileError

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


class PymdownSlugger(MkdocsSlugger):
    """The ids of `pymdownx.slugs.slugify`, which keeps letters of all scripts; `options` are its arguments."""

    def __init__(self, used: Iterable[str], separator: str, options: Mapping[str, object]) -> None:
        super().__init__(used, separator)
        self._options = options

    def base(self, text: str) -> str:
        """See `MkdocsSlugger`."""
        case, form = self._options.get("case"), self._options.get("normalize")
        value = unicodedata.normalize(_FORMS.get(str(form), "NFC"), text)
        parts, at = [], 0  # the text without what stands between `<` and the next `>`
        while (begin := value.find("<", at)) >= 0 and (end := value.find(">", begin)) >= 0:
            parts.append(value[at:begin])
            at = end + 1
        value = "".join([*parts, value[at:]]).strip()
        if case == "lower":
            value = value.lower()
        elif case == "fold":
            value = value.casefold()
        elif case == "lower-ascii":
            value = "".join(char.lower() if char.isascii() else char for char in value)
        name = _NOT_PYMDOWN.sub("", value).replace(" ", self._separator)
        return quote(name) if self._options.get("percent_encode") is True else name


_LINE = re.compile(r"( *)(;*)-{1,}8<-{1,}(?:[ \t]+(?:\"([^\"\n]+)\"|'([^'\n]+)'))?[ \t]*$")
_SECTION = re.compile(r"8<-{1,20}[ \t]{1,9}\[[ \t]{0,9}(start|end)[ \t]{0,9}:[ \t]{0,9}([\w-]{1,200})[ \t]{0,9}\]")
_INCLUDE = re.compile(r"( *)\{%-?[ ]*include(?:-markdown)?[ ]+[\"']([^\"'\n]+)[\"'][^%\n]{0,300}%\}[ \t]*$")
_DEPTH_MAX, CHARS_MAX = 10, 5_000_000


@dataclass
class Snippets:
    """Includes of one page; `read` and `lost` list included and missing ones."""

    tree: SourceTree
    bases: Sequence[str]  # folders that snippets are looked for in
    read: list[str] = field(default_factory=list)
    lost: int = 0
    _chars: int = 0

    def included(self, name: str, text: str) -> str:
        """Return the text of a page with the files that it includes in their places.

        Raises:
            FileError: they include each other, or are longer than 5,000,000 characters together.
        """
        if "8<-" not in text and "{%" not in text:
            return text
        return "\n".join(self._lines(text.split("\n"), (name,)))

    def _lines(self, lines: Sequence[str], above: tuple[str, ...]) -> list[str]:
        out: list[str] = []
        is_block = False
        for line in lines:
            match = _LINE.match(line) if "8<-" in line else None
            if match and match[2]:
                out.append(f"{match[1]}{match[2][1:]}{line[match.end(2) :]}")
            elif match:
                path = match[3] or match[4]
                if path is None:
                    is_block = not is_block
                else:
                    out += self._file(path, self.bases, match[1], above)
            elif is_block:
                path = line.strip()
                if path and not path.startswith((";", "#")):
                    indent = line[: len(line) - len(line.lstrip(" "))]
                    out += self._file(path, self.bases, indent, above)
            elif "{%" in line and (include := _INCLUDE.match(line)):
                out += self._file(include[2], (posixpath.dirname(above[-1]),), include[1], above)
            elif not ("8<-" in line and _SECTION.search(line)):
                out.append(line)
        return out

    def _file(self, path: str, bases: Sequence[str], indent: str, above: tuple[str, ...]) -> list[str]:
        path, _, part = path.partition(":")
        found = None if part.startswith("//") else self._found(path, bases)
        if found is None:
            self.lost += 1
            return []
        name, text = found
        if name in above or len(above) > _DEPTH_MAX:
            raise FileError(f"its includes lead back to themselves: {' -> '.join([*above, name])[:300]}")
        self.read.append(name)
        lines = self._lines(_part(text.removesuffix("\n").split("\n"), part), (*above, name))
        self._chars += sum(map(len, lines)) + len(lines) * (len(indent) + 1)
        if self._chars > CHARS_MAX:
            raise FileError(f"what it includes is longer than {CHARS_MAX} characters")
        return [f"{indent}{line}" if line else "" for line in lines]

    def _found(self, path: str, bases: Sequence[str]) -> tuple[str, str] | None:
        for base in bases:
            name = resolved(posixpath.join(base, "page"), path)
            if name is not None:
                try:
                    return name, text_of(self.tree.read(name))
                except KeyError:
                    continue
        return None


def _part(lines: list[str], part: str) -> list[str]:
    """Return the lines that `:4:6`, `:4` or `:name` names; all of them without."""
    if not part:
        return lines
    numbers = part.split(":")
    if all(number.lstrip("-").isdigit() or not number for number in numbers[:2]):
        first = int(numbers[0] or 1)
        last = int(numbers[1]) if len(numbers) > 1 and numbers[1] else len(lines)
        return lines[max(first, 1) - 1 : last]
    kept: list[str] = []
    is_inside = False
    for line in lines:
        mark = _SECTION.search(line)
        if mark and mark[2] == part:
            is_inside = mark[1] == "start"
        elif is_inside:
            kept.append(line)
    return kept


_ADMONITION = re.compile(r"( *)(?:!!!|\?\?\?\+?) ?([\w\" ][^\n]*)")
_TAB = re.compile(r'( *)===[+!]{0,2} +"([^\n]*)" *$')
_ABBREVIATION = re.compile(r" {0,3}\*\[[^\]\n]{1,200}\]: ")
_KEYS = re.compile(r"(?<!\+)\+\+([a-z0-9-]{1,30}(?:\+[a-z0-9-]{1,30}){0,8})\+\+(?!\+)")
_SHIFTED = {
    "~": (re.compile(r"(?<![~\\])~([^\s~]{1,200})~(?!~)"), r"<sub>\1</sub>"),
    "^": (re.compile(r"(?<![\^\\])\^([^\s^]{1,200})\^(?!\^)"), r"<sup>\1</sup>"),
}
_DEEPEST = 6
_ATTRIBUTES = re.compile(r"\{:?[ ]*([^{}\n]{0,500})\}")
_LONE_ATTRIBUTES = re.compile(r" *\{:[^{}\n]{0,500}\} *$")
_AFTER_INLINE = re.compile(r"(?<=[)\]*_`])\{:?[ ]*[.#][^{}\n]{0,500}\}")
_ID = re.compile(r"(?:^|\s)#([^\s#}]{1,200})")
_MARKDOWN_TAG = re.compile(
    r"( *)<([a-z]{1,20})\b([^<>\n]{0,500}?)\s+markdown(?:=\"[^\"\n]{0,20}\")?([^<>\n]{0,500})> *$"
)
_CLOSING_TAG = re.compile(r" *</(?:div|section|article|figure|details|figcaption|aside|center)> *$")
_DEPTH_MAX = 20
_Shown = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]
_STEP = 4


def plain_markdown(text: str, *, has_keys: bool = False, marks: str = "") -> str:
    """Return a page's Markdown without the syntax of MkDocs' extensions.

    `has_keys`: whether `++ctrl+c++` is keys; `marks`: those that lower (`~`) and raise (`^`) the text between them.

    An admonition becomes a `<blockquote>` that begins with its title in bold, a tab its title in bold before its
    content, code its title in bold before it. Code stays verbatim.
    """
    lines = _rewritten(text.split("\n"), 0)
    shown = [(_KEYS, _keys)] * has_keys + [_SHIFTED[mark] for mark in marks]
    return "\n".join(_with_inline(lines, shown) if shown else lines)


def _rewritten(lines: Sequence[str], depth: int) -> list[str]:
    out: list[str] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        if fence_run(line.lstrip(" ")):
            end = end_of(lines, index)
            first, title, _ = opening(line)
            if title:
                out += ["", f"{_indent(line)}{_bold(title)}", ""]
            out += [first, *lines[index + 1 : end + 1]]
            index = end + 1
        elif depth < _DEPTH_MAX and (block := _block(lines, index)) is not None:
            indent, title, is_quote, end = block
            inner = [each[len(indent) + _STEP :] for each in lines[index + 1 : end]]
            body = [f"{indent}{each}" if each else "" for each in _rewritten(inner, depth + 1)]
            head = [f"{indent}{_bold(title)}", ""] if title else []
            quote = ([f"{indent}<blockquote>", ""], ["", f"{indent}</blockquote>", ""])
            begin, close = quote if is_quote else ([""], [""])
            out += ["", *begin, *head, *body, *close]
            index = end
        elif level := _underlined(lines, index):
            out += _line(f"{'#' * level} {line}")
            index += 2
        else:
            if not _ABBREVIATION.match(line):
                out += _line(line)
            index += 1
    return out


def _block(lines: Sequence[str], index: int) -> tuple[str, str, bool, int] | None:
    """Return indentation, title, whether it is an admonition, and the end of a block that is marked by indentation."""
    line = lines[index]
    if tab := _TAB.match(line):
        return tab[1], tab[2], False, _end(lines, index, len(tab[1]) + _STEP)
    if not line.lstrip(" ").startswith(("!!!", "???")) or not (match := _ADMONITION.match(line)):
        return None
    words, mark, title = match[2].rstrip().partition('"')
    kinds = words.split()
    if not kinds or (mark and not title.endswith('"')):
        return None
    title = title[:-1] if mark else kinds[0].capitalize()
    return match[1], title, True, _end(lines, index, len(match[1]) + _STEP)


def _end(lines: Sequence[str], index: int, indent: int) -> int:
    """Return the line after the last one of a block whose lines are indented by so much."""
    end = last = index + 1
    while end < len(lines):
        line = lines[end]
        if line.strip():
            if len(line) - len(line.lstrip(" ")) < indent:
                break
            last = end + 1
        end += 1
    return last


def _underlined(lines: Sequence[str], index: int) -> int:
    """Return the level of a heading that is underlined as Python-Markdown has it: the first line of a paragraph, even
    one that begins like a list; else 0."""
    if not lines[index].startswith(("- ", "* ", "+ ")) or (index and lines[index - 1].strip()):
        return 0
    below = lines[index + 1].rstrip() if index + 1 < len(lines) else ""
    return 1 if below and not below.strip("=") else 2 if below and not below.strip("-") else 0


def _line(line: str) -> list[str]:
    stripped = line.lstrip(" ")
    if stripped.startswith("<"):
        if tag := _MARKDOWN_TAG.match(line):
            return [f"{tag[1]}<{tag[2]}{tag[3]}{tag[4]}>", ""]
        return ["", line] if _CLOSING_TAG.match(line) else [line]
    if line.startswith("#"):
        return [_with_id(_heading(line))]
    if stripped.startswith("#") and len(line) - len(stripped) < _STEP:  # no heading unless it begins the line
        return [f"{line[: len(line) - len(stripped)]}\\{stripped}"]
    if "{" not in line:
        return [line]
    if _LONE_ATTRIBUTES.match(line):
        return [""]
    if line.rstrip().endswith("}") and _ID.search(line):  # the first line of a heading that is underlined
        return [_with_id(line)]
    return [_AFTER_INLINE.sub("", line)]


def _heading(line: str) -> str:
    """Return a line that begins with `#` as CommonMark has headings.

    Python-Markdown needs no space after `#`, takes six of them at most, and leaves out all at the end.
    """
    level = min(len(line) - len(line.lstrip("#")), _DEEPEST)
    words = line[level:].strip()
    if not words.endswith("\\#"):
        words = words.rstrip("#").rstrip()
        words = f"{words[:-1]}\\#" if words.endswith("#") else words
    escape = "\\" if words.startswith("#") else ""
    return f"{'#' * level} {escape}{words}"


def _with_inline(lines: Sequence[str], shown: Sequence[_Shown]) -> list[str]:
    """Return lines outside of code with keys as they are shown (`Ctrl+C` for `++ctrl+c++`), and raised text."""
    out: list[str] = []
    for begin, end, is_code in outside(lines):
        for line in lines[begin:end]:
            for pattern, said in () if is_code or "`" in line else shown:
                line = pattern.sub(said, line)
            out.append(line)
    return out


def _keys(match: re.Match[str]) -> str:
    return "+".join(" ".join(word.capitalize() for word in key.split("-")) for key in match[1].split("+"))


def _with_id(line: str) -> str:
    """Return a heading with no attribute but its id, as CommonMark's readers write it."""
    end = line.rstrip().rstrip("#").rstrip()
    at = end.rfind("{")
    found = _ATTRIBUTES.fullmatch(end, at) if at > 0 else None
    if found is None:
        return line
    name = _ID.search(found[1])
    return f"{end[: found.start()].rstrip()} {{#{name[1]}}}" if name else end[: found.start()].rstrip()


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _bold(title: str) -> str:
    words = title.replace("\\", "").replace("**", "").strip()
    return f"**{words}**" if words else ""
