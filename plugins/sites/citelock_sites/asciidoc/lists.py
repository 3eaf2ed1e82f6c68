"""Lists of AsciiDoc: bullets, numbers, callouts, terms, with what is attached to their items.

Belongs here: which lines make an item, how deep it stands. Does not belong here: blocks inside items.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from citelock_sites.asciidoc.blocks import BlockAttributes, Blocks

_ITEM = re.compile(r"[ \t]*(\*{1,6}|-|\.{1,6}|\d{1,5}\.|[a-zA-Z]\.|[ivxIVX]{1,6}\)|<(?:\d{1,3}|\.)>)[ \t]+(\S.*)$")
_TERM = re.compile(r"[ \t]*(?!//)(\S.{0,500}?)(:{2,4}|;;)(?:[ \t]+(\S.*))?$")
_TERM_MARKS = ("::", ":::", "::::", ";;")
_CHECK = re.compile(r"\[([ xX*])\]\s+")
_STOP = re.compile(r"={1,6}\s+\S|\[[^\]]|\.[^ .]|-{4,}$|\.{4,}$|={4,}$|\*{4,}$|_{4,}$|\|={3,}$|--$")
_OPEN = re.compile(r"(-{4,}|\.{4,}|={4,}|\*{4,}|_{4,}|\+{4,}|/{4,}|--|```.*|[|,:!]={3,})$")


def list_html(blocks: Blocks, lines: list[str], at: int, about: BlockAttributes) -> tuple[int, str]:
    """Return where the block after a list begins, and the list."""
    end, html = _list(blocks, lines, at, [])
    return end, blocks.titled(about, html)


def _mark(line: str) -> str:
    """Return which kind of item a line begins; empty where it begins none."""
    if item := _ITEM.match(line):
        mark = item[1]
        if mark[0].isalnum():
            return "1." if mark[0].isdigit() else "a." if mark.endswith(".") else "i)"
        return "<1>" if mark[0] == "<" else mark
    term = _TERM.match(line)
    return term[2] if term else ""


def _list(blocks: Blocks, lines: list[str], at: int, above: list[str]) -> tuple[int, str]:
    kind = _mark(lines[at])
    items: list[str] = []
    while at < len(lines) and _mark(lines[at]) == kind:
        at, html = _item(blocks, lines, at, [*above, kind])
        items.append(html)
    tag = "dl" if kind in _TERM_MARKS else "ul" if kind[0] in "*-" else "ol"
    return at, f"<{tag}>{''.join(items)}</{tag}>"


def _item(blocks: Blocks, lines: list[str], at: int, kinds: list[str]) -> tuple[int, str]:
    """Return where the next item begins, and this one."""
    kind = kinds[-1]
    if kind in _TERM_MARKS:
        at, terms, first = _terms(lines, at, kind)
    else:
        item = _ITEM.match(lines[at])
        at, terms, first = at + 1, [], item[2] if item else lines[at]
    heads = "".join(f"<dt>{blocks.inline.html(term)}</dt>" for term in terms)
    at, words = _words(lines, at, first)
    at, rest = _attached(blocks, lines, at, kinds)
    check = _CHECK.match(words) if kind[0] in "*-" else None
    if check:
        words = f"[{'x' if check[1] != ' ' else ' '}] {words[check.end() :]}"
    inner = f"<p>{blocks.inline.html(words)}</p>" if words else ""
    return at, f"{heads}<dd>{inner}{rest}</dd>" if heads else f"<li>{inner}{rest}</li>"


def _terms(lines: list[str], at: int, kind: str) -> tuple[int, list[str], str]:
    """Return the line after the terms of an item, the terms, and what stands beside the last one."""
    terms: list[str] = []
    first = ""
    while at < len(lines) and (term := _TERM.match(lines[at])) and term[2] == kind and not first:
        terms.append(term[1])
        first = term[3] or ""
        at += 1
        following = _skip(lines, at)
        if not first and following < len(lines) and _mark(lines[following]) == kind:
            at = following
    return at, terms, first


def _words(lines: list[str], at: int, first: str) -> tuple[int, str]:
    """Return the line after the words of an item, and the words; `first`: those beside its mark."""
    words = [first] if first else []
    if not words:
        following = _skip(lines, at)
        at = following if following < len(lines) and not _mark(lines[following]) and _is_text(lines, following) else at
    while at < len(lines) and lines[at].strip() and not _mark(lines[at]) and lines[at] != "+":
        if _STOP.match(lines[at]):
            break
        words.append(lines[at].strip())
        at += 1
    return at, "\n".join(line for line in words if not line.startswith("//"))


def _is_text(lines: list[str], at: int) -> bool:
    return not _STOP.match(lines[at]) and lines[at] != "+"


def _skip(lines: list[str], at: int) -> int:
    while at < len(lines) and not lines[at].strip():
        at += 1
    return at


def _attached(blocks: Blocks, lines: list[str], at: int, kinds: list[str]) -> tuple[int, str]:
    """Return where the item ends, and what belongs to it: blocks after `+`, lists of another kind, indented text."""
    parts: list[str] = []
    while at < len(lines):
        if lines[at] == "+":
            end = _block_end(lines, at + 1)
            parts.append(blocks.html(lines[at + 1 : end], False))
            at = end
            continue
        following = _skip(lines, at)
        if following >= len(lines):
            return following, "".join(parts)
        mark = _mark(lines[following])
        if mark and mark not in kinds and (following == at or not _begins_anew(lines, at, following)):
            at, html = _list(blocks, lines, following, kinds)
            parts.append(html)
        elif following > at and lines[following][:1] in " \t" and not mark:
            end = _block_end(lines, following)
            parts.append(blocks.html(lines[following:end], False))
            at = end
        elif mark in kinds:
            return following, "".join(parts)
        else:
            return at, "".join(parts)
    return at, "".join(parts)


def _begins_anew(lines: list[str], at: int, following: int) -> bool:
    """Return whether a comment parts two lists."""
    return any(line.startswith("//") for line in lines[at:following])


def _block_end(lines: list[str], at: int) -> int:
    """Return where the block that an item is given ends."""
    while at < len(lines) and lines[at].startswith((".", "[")) and not _OPEN.match(lines[at]) and not _mark(lines[at]):
        at += 1
    if at < len(lines) and (opening := _OPEN.match(lines[at])):
        mark = "```" if opening[1].startswith("```") else opening[1]
        closing = (end for end in range(at + 1, len(lines)) if lines[end].rstrip() == mark)
        return next(closing, len(lines) - 1) + 1
    if at < len(lines) and _mark(lines[at]):
        at += 1
    while at < len(lines) and lines[at].strip() and lines[at] != "+" and not _mark(lines[at]):
        at += 1
    return max(at, 0)
