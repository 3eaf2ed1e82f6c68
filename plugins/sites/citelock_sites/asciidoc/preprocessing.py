"""The lines of a page of AsciiDoc, with what they include and without what their conditions leave out.

Belongs here: `include`, `ifdef`, `ifndef`, `ifeval`, tags and lines of included files. Does not belong here: blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from citelock_sites.asciidoc.context import AsciiContext

ATTRIBUTE = re.compile(r":(!?[\w-]+!?):(?:\s+(.*))?$")
_DIRECTIVE = re.compile(r"(\\)?(include|ifdef|ifndef|ifeval|endif)::([^\[]*)\[(.*)\]\s*$")
_EVALUATED = re.compile(r"(.{0,300}?)(==|!=|<=|>=|<|>)(.*)$")
_TAG = re.compile(r"\b(tag|end)::([^\s\[\]]{1,200})\[\]")
_VERBATIM = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|/{4,}|```.*)\s*$")
_NESTED_MAX = 20


def whole_lines(text: str, context: AsciiContext) -> list[str]:
    """Return all lines of a page; attributes that it sets are the context's only where its conditions ask."""
    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f]", " ", text.removeprefix("\ufeff").replace("\r\n", "\n"))
    before = dict(context.attributes)
    lines = list(_lines(text.split("\n"), context, context.name, 0))
    context.attributes = before
    return lines


def _lines(lines: Iterable[str], context: AsciiContext, name: str, depth: int) -> Iterator[str]:
    shown: list[bool] = []  # of the conditions that the line stands in
    for line in lines:
        match = _DIRECTIVE.match(line) if "::" in line and "[" in line else None
        if match is None:
            if all(shown):
                if entry := ATTRIBUTE.match(line):
                    context.assign(entry[1], entry[2] or "")
                yield line.rstrip()
            continue
        escaped, kind, target, inner = match.groups()
        if escaped:
            if all(shown):
                yield line[1:]
        elif kind == "endif":
            if shown:
                shown.pop()
        elif kind == "include":
            if all(shown):
                yield from _included(target, inner, context, name, depth)
        elif kind == "ifeval" or not inner:
            shown.append(_holds(kind, target, inner, context))
        elif all(shown) and _holds(kind, target, inner, context):
            yield inner


def _holds(kind: str, target: str, inner: str, context: AsciiContext) -> bool:
    if kind == "ifeval":
        match = _EVALUATED.match(context.replaced(inner))
        return match is not None and _compared(*(one.strip().strip("\"'") for one in match.groups()))
    names = [context.value(one.strip()) is not None for one in re.split(r"[,+]", target)]
    found = all(names) if "+" in target else any(names)
    return found == (kind == "ifdef")


def _compared(left: str, operator: str, right: str) -> bool:
    try:
        first, second = float(left), float(right)
    except ValueError:
        return {"==": left == right, "!=": left != right}.get(operator, False)
    return {
        "==": first == second, "!=": first != second, "<": first < second, ">": first > second, "<=": first <= second,
        ">=": first >= second,
    }[operator]  # fmt: skip


def _included(target: str, inner: str, context: AsciiContext, name: str, depth: int) -> Iterator[str]:
    path = context.replaced(target.strip())
    found = None if depth >= _NESTED_MAX or "://" in path else context.around.file(path, name)
    if found is not None:
        context.left -= len(found[1])
    options = dict(part for part in re.findall(r"\b(\w{1,30})=(\"[^\"]{0,500}\"|[^,]{0,500})", inner))
    if found is None or context.left < 0:
        if options.get("opts") != "optional" and "%optional" not in inner:
            context.lost["include"] += 1
        return
    if found[0] not in context.read:
        context.read.append(found[0])
    lines = found[1].replace("\r\n", "\n").removesuffix("\n").split("\n")
    options = {key: value.strip('"') for key, value in options.items()}
    if tags := options.get("tag") or options.get("tags"):
        lines = list(_tagged(lines, tags))
    if wanted := options.get("lines"):
        lines = list(_numbered(lines, wanted))
    if "indent" in options:
        lines = _indented(lines, options["indent"])
    offset = options.get("leveloffset", "")
    if re.fullmatch(r"[+-]?\d", offset):
        lines = list(_shifted(lines, int(offset)))
    if found[0].endswith((".adoc", ".asciidoc", ".asc", ".ad")):
        yield from _lines(lines, context, found[0], depth + 1)
    else:
        yield from (line.rstrip() for line in lines)


def _tagged(lines: list[str], wanted: str) -> Iterator[str]:
    """Yield the lines between the tags that are wanted; lines with tags are none."""
    names = [one.strip() for one in re.split(r"[;,]", wanted) if one.strip()]
    takes = {one for one in names if not one.startswith("!")} or {"**"}
    leaves = {one[1:] for one in names if one.startswith("!")}
    inside: list[str] = []
    for line in lines:
        if tag := _TAG.search(line):
            if tag[1] == "tag":
                inside.append(tag[2])
            elif tag[2] in inside:
                inside.remove(tag[2])
            continue
        any_tag = "*" in takes and bool(inside)
        chosen = "**" in takes or any_tag or bool(takes & set(inside))
        if chosen and not leaves & set(inside):
            yield line


def _numbered(lines: list[str], wanted: str) -> Iterator[str]:
    for part in re.split(r"[;,]", wanted):
        match = re.fullmatch(r"(\d{1,7})(?:(\.\.)(-?\d{0,7}))?", part.replace(" ", ""))
        if match:
            last = int(match[1]) if not match[2] else len(lines) if match[3] in ("", "-1") else int(match[3])
            yield from lines[int(match[1]) - 1 : last] if match[1] != "0" else ()


def _indented(lines: list[str], value: str) -> list[str]:
    least = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    width = int(value) if re.fullmatch(r"\d{1,2}", value) else 0
    return [" " * width + line[least:] if line.strip() else "" for line in lines]


def _shifted(lines: list[str], offset: int) -> Iterator[str]:
    """Yield lines whose headings are deeper by the offset; lines of code are none."""
    fence = ""
    for line in lines:
        if _VERBATIM.match(line):
            fence = "" if line.strip() == fence else fence or line.strip()[:3] * (line[:3] == "```") or line.strip()
        match = None if fence else re.match(r"(=+)(\s+\S.*)", line)
        yield "=" * max(len(match[1]) + offset, 1) + match[2] if match else line
