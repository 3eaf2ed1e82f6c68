"""A name with the end of a line behind it is another name: no pattern and no validator takes one for the other.

Python's `$` stands before a final line end, too; pydantic's does not.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError
from support.examples import examples
from support.parsed import parsed

import rag_serving.api
from rag_serving.config.loading import ConfigError, parse_config
from rag_serving.config.sources import SLUG

ROOT = Path(__file__).parents[2]
SOURCE = {"kind": "confluence_dump", "path": "x", "tenant": "acme"}
ENDS = st.sampled_from(["\n", "\r", "\r\n", "\u2028", "\x85", "\x0b", " "])
NOT_WHOLE = {"match", "search", "sub", "subn"}


def models(model: type[BaseModel] = BaseModel) -> Iterator[type[BaseModel]]:
    """Every pydantic model of the configuration and of the HTTP API."""
    for found in pkgutil.walk_packages(rag_serving.api.__path__, "rag_serving.api."):
        importlib.import_module(found.name)
    waiting = [model]
    while waiting:
        waiting += (subclasses := waiting.pop().__subclasses__())
        yield from (each for each in subclasses if each.__module__.startswith(("rag_serving", "rag_assets", "evals")))


def patterns() -> dict[str, tuple[str, Any]]:
    """Every field with a pattern: its pattern, and what validates it."""
    found = {}
    for model in models():
        for name, field in model.model_fields.items():
            for each in field.metadata:
                if pattern := getattr(each, "pattern", None):
                    found[f"{model.__name__}.{name}"] = pattern, TypeAdapter(Annotated[field.annotation, field])
    return found


def test_a_value_of_a_pattern_with_a_line_end_is_refused() -> None:
    found = patterns()
    assert {"Confluence.tenant", "Serving.public_url", "Index.collection"} <= set(found)
    for name, (pattern, validator) in found.items():
        refused_with_a_line_end(name=name, pattern=pattern, validator=validator)


@settings(max_examples=examples(0.25))
@given(data=st.data())
def refused_with_a_line_end(name: str, pattern: str, validator: Any, data: st.DataObject) -> None:
    note(name)
    value = data.draw(st.from_regex(re.compile(pattern), fullmatch=True).filter(lambda text: text == text.strip()))
    try:
        validator.validate_python(value)
    except ValidationError:
        return  # what is white space, or a digit, is told otherwise by pydantic
    with pytest.raises(ValidationError):
        validator.validate_python(value + data.draw(ENDS))


@settings(max_examples=examples(0.25))
@given(name=st.from_regex(re.compile(SLUG, re.ASCII), fullmatch=True).filter(str.isprintable), end=ENDS)
def test_no_tenant_and_no_source_has_a_line_end_in_its_name(name: str, end: str) -> None:
    parse_config({"tenants": {name: {}}, "sources": {name: {**SOURCE, "tenant": name}}})
    for tenant, source in ((name + end, "s"), (name, "s" + end)):
        with pytest.raises(ConfigError, match=r"slug|pattern"):
            parse_config({"tenants": {tenant: {}}, "sources": {source: {**SOURCE, "tenant": tenant}}})


@pytest.mark.parametrize("principal", ["group:eng\n", "user:ann\r", "group:\x00", "user:a\u2028b"])
def test_no_reader_has_a_line_end_in_its_name(principal: str) -> None:
    with pytest.raises(ConfigError, match="line's end"):
        parse_config({"tenants": {"acme": {}}, "sources": {"s": {**SOURCE, "readers": [principal]}}})


@pytest.mark.parametrize("room", ["rag_serving", "rag_assets", "evals/evaluation", "evals/reports"])
def test_no_pattern_that_is_anchored_at_both_ends_is_matched_before_a_line_end(room: str) -> None:
    """`^…$` is how a whole value is checked: with `match` or `search` it lets a line end through."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {pattern}"
        for path in (ROOT / room).rglob("*.py")
        if "import re\n" in (text := path.read_text())
        for node, pattern in anchored(parsed(text))
    ]
    assert wrong == []


def test_a_pattern_that_lets_a_line_end_through_is_seen() -> None:
    code = "import re\nNAME = r'^a$'\nre.match(NAME, x)\nre.compile(r'^b$')\nre.fullmatch(NAME, x)\nre.search('c$', x)"
    assert [pattern for _, pattern in anchored(parsed(code))] == ["^a$", "^b$"]


def anchored(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """The calls of `re` that check a whole value by a pattern from `^` to `$`, without MULTILINE."""
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        if node.func.attr not in NOT_WHOLE | {"compile"} or getattr(node.func.value, "id", "") != "re":
            continue
        given = node.args[0]
        pattern = given.value if isinstance(given, ast.Constant) else constants.get(getattr(given, "id", ""), "")
        is_whole = isinstance(pattern, str) and pattern.startswith("^") and pattern.endswith("$")
        if is_whole and not any("MULTILINE" in ast.unparse(more) for more in node.args[1:]):
            yield node, pattern
