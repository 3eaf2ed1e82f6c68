"""Templates in the text of pages: values, blocks and shortcodes, expanded without running anything."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import Environment, TemplateSyntaxError, nodes

from rag_serving.text.normalization import OMISSION

_LONGEST, _AROUND = 2000, 300  # characters of a tag, and of the text on either side that is looked at
_ENVIRONMENT = Environment(autoescape=True)
_LIQUID = re.compile(r"\|\s{0,9}(\w{1,60})\s{0,9}:([^|]{0,500})")
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?")
_SAME = frozenset(["safe", "escape", "e", "string", "trim", "markdownify", "relative_url", "absolute_url", "url"])
"""Filters that change no word."""
_OPENING = re.compile(r"\{\{|\{%|\{#(?=[\s-])")
_HUGO_OPENING = re.compile(r"\{\{[<%]")
_CLOSING = {"{{": "}}", "{%": "%}", "{#": "#}", "{{<": ">}}", "{{%": "%}}"}
_ARGUMENT = re.compile(r"""(?:([\w-]{1,60})\s{0,9}[=:]\s{0,9})?(?:"([^"]*)"|'([^']*)'|`([^`]*)`|([^\s,"'`=]+))""")
_CONDITIONS = frozenset(
    ["if", "unless", "case", "switch", "ifversion", "for", "tablerow", "asyncEach", "asyncAll", "ifAsync"]
)
_UNSEEN = frozenset(
    ["comment", "set", "setAsync", "capture", "macro", "javascript", "stylesheet", "style", "css", "js"]
)
_SETTING = frozenset(["set", "assign", "capture", "increment", "decrement"])
_SILENT = frozenset(["import", "from", "extends", "layout", "assign", "set", "else", "break", "continue", "do"])
_LABELLED = frozenset(["tab", "tabitem", "expand", "details", "collapse", "accordion", "step", "card", "dropdown"])
"""Shortcodes whose first argument is shown above what stands in them."""
_HEADS = ("title", "label", "name", "header", "heading", "summary", "caption")
_TEXTS = ("text", "content", "label", "title", "caption")
_IN_TARGET = re.compile(r"(?:\]\(<?|\b(?:href|src)=[\"']?)[^\s\"'()<>]{0,250}\Z")
_QUOTED = re.compile(r"[\"'`]([^\"'`]+)[\"'`]")
_WORDS = re.compile(r"[^\W\d_][\w ,'&-]{0,100}")
_BLOCK = re.compile(r"\s*(?:[-*+>|#<]|\d{1,9}[.)]|```|~~~)")


def value_of(expression: str, known: Mapping[str, Any]) -> Any:
    """Return the value of an expression: a string, mapping or list of `known`, a literal; None if unknown."""
    expression = expression.strip()
    if _NUMBER.fullmatch(expression):
        return expression
    node = _parsed(expression)
    return None if node is None else _value(node, known)


def text_of_value(expression: str, known: Mapping[str, Any]) -> str | None:
    """Return the text that an expression shows; None if it is not known."""
    value = value_of(expression, known)
    return value if isinstance(value, str) and "{{" not in value and "{%" not in value else None


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> nodes.Node | None:
    if len(expression) > _LONGEST:
        return None
    try:
        body = _ENVIRONMENT.parse("{{ " + _LIQUID.sub(r"| \1(\2)", expression) + " }}").body
    except (TemplateSyntaxError, RecursionError, ValueError):
        return None
    match body:
        case [nodes.Output(nodes=[node])]:
            return node
    return None


def _value(node: nodes.Node | None, known: Mapping[str, Any]) -> Any:
    match node:
        case nodes.Const(value=str() as text):
            return text
        case nodes.Const(value=int() | float() as number) if not isinstance(number, bool):
            return str(number)
        case nodes.Name(name=name):
            return known.get(name)
        case nodes.Getattr(node=above, attr=name):
            return _member(_value(above, known), name)
        case nodes.Getitem(node=above, arg=nodes.Const(value=key)):
            return _member(_value(above, known), key)
        case nodes.Filter(node=above, name=name) if name in _SAME or name in ("default", "d"):
            return _value(above, known)
        case nodes.Concat(nodes=parts):
            texts = [_value(part, known) for part in parts]
            return "".join(texts) if all(isinstance(text, str) for text in texts) else None
    return None


def _member(value: Any, key: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get(str(key))
    is_place = isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value)
    return value[key] if is_place else None


class _Tag(NamedTuple):
    """A tag in a text; `name` is empty for a value, `mark` is what it opens with."""

    begin: int
    end: int
    mark: str
    name: str
    rest: str


@dataclass
class Template:
    """Expands a page's templates from the `known` values; `lost` counts unknown ones.

    Attributes:
        is_hugo: whether the marks are those of Hugo's shortcodes, and `{{ }}` is text.
    """

    known: dict[str, Any]
    is_hugo: bool = False
    lost: Counter[str] = field(default_factory=Counter)

    def rendered(self, text: str) -> str:
        """Return a text without its templates: values in their places, no block under a condition, the content of
        other blocks below their label in bold."""
        tags = list(_tags(text, self.is_hugo))
        pairs = _pairs(tags)
        out: list[str] = []
        at = index = 0
        while index < len(tags):
            tag = tags[index]
            out.append(text[at : tag.begin])
            last = pairs.get(index, index)
            written, goes_on = self._written(text, tag, tags[index : last + 1], bool(pairs.get(index)))
            out.append(written)
            index = index + 1 if goes_on else last + 1
            at = tags[index - 1].end
        return "".join([*out, text[at:]])

    def _written(self, text: str, tag: _Tag, inside: Sequence[_Tag], is_paired: bool) -> tuple[str, bool]:
        """Return a tag's output, and whether the text up to the end of its block is read, too."""
        begin, end, name = tag.begin, inside[-1].end, tag.name
        body = text[tag.end : inside[-1].begin]
        if name == "raw" or name == "verbatim":
            return body, False
        if name in _SETTING or name in _CONDITIONS:
            self._assign(inside)
        if (is_paired and name in _UNSEEN) or tag.mark == "{#" or name in _SILENT or name.startswith(("/", "end")):
            return "", False
        if is_paired and name in _CONDITIONS:
            self.lost[f"template block {name}"] += 1
            return (OMISSION if is_gap(text, begin, end, body) else ""), False
        if self.is_hugo and tag.rest.startswith("/*"):
            return f"{tag.mark} {tag.rest.strip('/* ')} {_CLOSING[tag.mark]}", True
        if name == "highlight":
            language = (tag.rest.split() or [""])[0].strip("\"'")
            return f"\n```{language}\n{body.strip(chr(10))}\n```\n", False
        return self._shown(text, tag, is_paired), True

    def _shown(self, text: str, tag: _Tag, is_paired: bool) -> str:
        places, names = _arguments(tag.rest)
        if _IN_TARGET.search(text, max(0, tag.begin - _AROUND), tag.begin):
            value = text_of_value(tag.rest, self.known) if not tag.name else None
            path = next(iter(places if tag.name else _QUOTED.findall(tag.rest)), OMISSION)
            is_from_root = tag.mark == "{%" and path[:1].isalnum() and "://" not in path
            return value if value is not None else f"/{path}" if is_from_root else path
        if is_paired:
            head = next((names[key] for key in _HEADS if names.get(key)), "")
            head = head or (places[0] if places and tag.name.lower() in _LABELLED else "")
            return f"\n\n{_indent(text, tag.begin)}**{head}**\n\n" if head else ""
        expression = tag.rest if not tag.name else places[0] if tag.name == "param" and places else ""
        value = text_of_value(expression, self.known) if expression else None
        if value is None and tag.name:
            value = next((names[key] for key in _TEXTS if names.get(key)), None)
        if value is not None:
            return value
        self.lost[f"shortcode {tag.name}"[:60] if tag.name else "template value"] += 1
        words = next((word for word in places if tag.name and _WORDS.fullmatch(word)), "")
        return f"{words}{OMISSION}" if is_gap(text, tag.begin, tag.end) else ""

    def _assign(self, tags: Sequence[_Tag]) -> None:
        """Note the values that tags set; one under a condition is not known."""
        for place, tag in enumerate(tags):
            if tag.name in _SETTING:
                name, equals, value = tag.rest.partition("=")
                is_told = place == 0 and equals
                self.known[name.strip()] = value_of(value, self.known) if is_told else None


def _tags(text: str, is_hugo: bool) -> Iterator[_Tag]:
    """Yield the tags of a text in order; a mark without an end within 2,000 characters is text."""
    opening, at = _HUGO_OPENING if is_hugo else _OPENING, 0
    last = {mark: text.rfind(closing) for mark, closing in _CLOSING.items()}
    while found := opening.search(text, at):
        mark = found[0]
        if found.end() > last[mark]:
            at = found.end()
            continue
        close = text.find(_CLOSING[mark], found.end(), found.end() + _LONGEST)
        if close < 0:
            at = found.end()
            continue
        at = close + len(_CLOSING[mark])
        content = text[found.end() : close].strip("-+~ \t\n")
        if mark in ("{{", "{#"):
            yield _Tag(found.start(), at, mark, "", content)
            continue
        is_comment = content.startswith("/*")
        name, _, rest = content.partition(" ") if not is_comment else ("", "", content)
        name, rest = (f"/{rest.strip()}", "") if name == "/" else (name, rest)
        if is_hugo and rest.endswith("/"):
            rest = rest[:-1]
        yield _Tag(found.start(), at, mark, name.strip(), rest.strip())


def _pairs(tags: Sequence[_Tag]) -> dict[int, int]:
    """Return the places of the tags that end a block, by those of the tags that begin it; nothing in `raw` counts."""
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    pairs: dict[int, int] = {}
    raw = ""
    for place, tag in enumerate(tags):
        if raw and tag.name != f"end{raw}":
            continue
        raw = tag.name if tag.name in ("raw", "verbatim") else ""
        ended = tag.name.removeprefix("/") if tag.name.startswith("/") else tag.name.removeprefix("end")
        if ended != tag.name:
            if waiting[ended]:
                pairs[waiting[ended].pop()] = place
        elif tag.name:
            waiting[tag.name].append(place)
    return pairs


def _arguments(text: str) -> tuple[list[str], dict[str, str]]:
    places: list[str] = []
    names: dict[str, str] = {}
    for match in _ARGUMENT.finditer(text):
        value = next(part for part in match.groups()[1:] if part is not None)
        if match[1]:
            names.setdefault(match[1], value)
        else:
            places.append(value)
    return places, names


def is_gap(text: str, begin: int, end: int, body: str = "") -> bool:
    """Return whether leaving out a tag, or a block with this body, makes a sentence incomplete.

    A block of whole sentences or list items leaves no gap, nor does one that is a paragraph of its own.
    """
    lines = text[max(0, begin - _AROUND) : begin].split("\n"), text[end : end + _AROUND].split("\n")
    before, after = lines[0][-1].strip(), lines[1][0].strip()
    is_alone = not before and not after
    if is_alone:
        before, after = (
            ([*lines[0], ""] if len(lines[0]) == 1 else lines[0])[-2].strip(),
            "".join(lines[1][1:2]).strip(),
        )
    is_ended = not before or before[-1] in ".!?:>|"
    body = body.strip()
    is_whole = bool(_BLOCK.match(body)) or (body[-1:] in tuple(".!?:") and body[:1].isupper())
    return not is_ended if body and is_whole else not is_ended or bool(after) or not is_alone


def _indent(text: str, at: int) -> str:
    before = text[max(text.rfind("\n", max(0, at - _AROUND), at) + 1, at - _AROUND, 0) : at]
    return before if not before.strip() else ""
