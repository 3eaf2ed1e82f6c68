"""Front matter and settings in YAML, read as text without building anything."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from rag_assets.steps.files.records import FileError

Value: TypeAlias = Any
"""A mapping, a list, a string, a truth value or None; numbers and dates stay as written."""

TAG = "!"
"""The key of a mapping under which the name in its tag stands."""
FRONT_MATTER_MAX = 64 * 1024
_NODES_MAX, _DEPTH_MAX = 200_000, 60
_FENCE = re.compile(r"(---|\+\+\+)[ \t]*\n")
_END = re.compile(r"^(?:---|\.\.\.|\+\+\+)[ \t]*(?:\n|\Z)", re.MULTILINE)
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}


class YamlError(Exception):
    """A text that is no YAML that is read; the message says why."""


@dataclass
class _Node:
    value: Value
    weight: int = 1  # nodes, those of aliases counted as often as they are named
    key: str | None = None  # of a mapping that is being read


def read_yaml(text: str) -> Value:
    """Return a YAML document as mappings, lists and strings. Nothing is constructed: a tag like `!!python/name:a.b`
    gives the name as a string, of a mapping under `TAG`. Raises YamlError: it is not valid, nested deeper than 60, or
    its aliases expand to more than 200,000 values."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _built(yaml.parse(text, Loader=loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f" in line {mark.line + 1}" if mark else ""
        raise YamlError(f"it is not valid YAML{at}: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise YamlError(f"it is nested deeper than {_DEPTH_MAX}") from None


def read_toml(text: str) -> Value:
    """Return a TOML document in the same way. Raises YamlError if it is not valid."""
    try:
        return read_yaml(json.dumps(tomllib.loads(text, parse_float=str), default=str))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise YamlError(f"it is not valid TOML: {error}") from None


def _built(events: Any) -> Value:
    import yaml

    root = _Node([])
    stack, anchors = [root], list[str]()
    named: dict[str, _Node] = {}
    for event in events:
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(_scalar(event))
            if event.anchor:
                named[event.anchor] = node
            _add(stack[-1], node)
        elif isinstance(event, yaml.AliasEvent):
            _add(stack[-1], named.get(event.anchor or "") or _Node(None))
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if len(stack) > _DEPTH_MAX:
                raise YamlError(f"it is nested deeper than {_DEPTH_MAX}")
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            stack.append(_Node(({TAG: _python(event)} if _python(event) else {}) if is_mapping else []))
            anchors.append(event.anchor or "")
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            node, anchor = stack.pop(), anchors.pop()
            if anchor:
                named[anchor] = node
            _add(stack[-1], node)
        elif isinstance(event, yaml.DocumentEndEvent):
            break
    return root.value[0] if root.value else None


def _add(above: _Node, node: _Node) -> None:
    above.weight += node.weight
    if above.weight > _NODES_MAX:
        raise YamlError(f"it has more than {_NODES_MAX} values, those of aliases included")
    if isinstance(above.value, list):
        above.value.append(node.value)
    elif above.key is None:
        above.key = node.value if isinstance(node.value, str) else "" if node.value is None else str(node.value)
    else:
        if above.key == "<<" and isinstance(node.value, dict):
            above.value.update({name: value for name, value in node.value.items() if name not in above.value})
        else:
            above.value[above.key] = node.value
        above.key = None


def _python(event: Any) -> str:
    """Return the name in a tag like `!!python/name:a.b`."""
    _, mark, name = (event.tag or "").partition("python/")
    return str(name) if mark else ""


def _scalar(event: Any) -> str | bool | None:
    if name := _python(event):
        return name
    if event.implicit[0] and event.value.lower() in _WORDS:
        return _WORDS[event.value.lower()]
    return str(event.value)


@dataclass(frozen=True)
class FrontMatter:
    """The values above a page's text, by name; lower case first letters as written."""

    values: Mapping[str, Value] = field(default_factory=dict)
    lines: int = 0  # of the file that it takes

    def text(self, *names: str) -> str | None:
        """Return the first of these values that is a word or several."""
        for name in names:
            value = self.values.get(name)
            if isinstance(value, str) and value.strip():
                return " ".join(value.split())[:2000]
        return None

    def words(self, *names: str) -> list[str]:
        """Return the words of these values: of lists, and of lists written as one string with commas."""
        found: list[str] = []
        for name in names:
            value = self.values.get(name)
            parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ()
            for part in parts:
                label = part.get("label") if isinstance(part, dict) else part
                if isinstance(label, str) and label.strip():
                    found.append(" ".join(label.split())[:200])
        return list(dict.fromkeys(found))[:200]

    def is_true(self, name: str) -> bool:
        """Return whether a value is true."""
        return self.values.get(name) is True

    def number(self, name: str) -> float | None:
        """Return a value as a number."""
        try:
            return float(self.values[name])
        except (KeyError, TypeError, ValueError):
            return None

    def member(self, name: str) -> Mapping[str, Value]:
        """Return a value that is a mapping; an empty one otherwise."""
        value = self.values.get(name)
        return value if isinstance(value, dict) else {}

    @property
    def labels(self) -> tuple[str, ...]:
        """Tags, keywords, and the version that a page is about."""
        version = self.text("version")
        return (*self.words("tags", "keywords"), *([f"version {version}"] if version else []))

    @property
    def lang(self) -> str | None:
        """The language that the page says it is in, ISO 639-1."""
        lang = self.text("lang", "language", "locale")
        return lang[:2].lower() if lang and re.fullmatch(r"[A-Za-z]{2}(?:[-_].*)?", lang) else None

    @property
    def updated_at(self) -> datetime | None:
        """The time of the last change according to the page; dates without a zone are in UTC."""
        for value in (self.member("last_update").get("date"), *map(self.values.get, ("updated", "lastmod", "date"))):
            if isinstance(value, str):
                try:
                    moment = datetime.fromisoformat(value.strip())
                except ValueError:
                    continue
                return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        return None

    @property
    def exclusion(self) -> str | None:
        """Why the page excludes itself; None if it does not."""
        robots = (self.text("robots") or "").lower()
        if self.values.get("published") is False:
            return "its front matter says that it is not published"
        for name in ("draft", "unlisted", "noindex"):
            if self.is_true(name):
                return f"its front matter says {name}"
        if "noindex" in robots:
            return "its front matter says noindex (robots)"
        if self.member("search").get("exclude") is True:
            return "its front matter leaves it out of the search (search.exclude)"
        return None


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """Return the front matter of a text and the text after it; a rule at its beginning is none. Raises FileError: it is
    not valid, or longer than `FRONT_MATTER_MAX` characters."""
    begin = _FENCE.match(text)
    if begin is None:
        return FrontMatter(), text
    end = _END.search(text, begin.end())
    if end is None:
        return FrontMatter(), text
    if end.start() > FRONT_MATTER_MAX:
        raise FileError(f"its front matter is longer than {FRONT_MATTER_MAX} characters")
    try:
        values = (read_toml if begin[1] == "+++" else read_yaml)(text[begin.end() : end.start()])
    except YamlError as error:
        raise FileError(f"its front matter cannot be read: {error}") from None
    if values is not None and not isinstance(values, dict):
        return FrontMatter(), text
    return FrontMatter(values or {}, text.count("\n", 0, end.end())), text[end.end() :]
