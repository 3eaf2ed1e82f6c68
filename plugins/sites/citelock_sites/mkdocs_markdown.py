"""Additions of MkDocs' extensions to Markdown, rewritten as plain Markdown.

Belongs here: admonitions, content tabs, attribute lists, abbreviations, titles of code, HTML with Markdown in it.
Does not belong here: included files (`snippets`), pages and settings (`mkdocs`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rag_assets.sources.sites.markdown_page import end_of, fence_run, opening, outside

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
