"""Descriptions of objects: functions, classes, options of a program.

Belongs here: which directives describe objects, the id of one as Sphinx makes it, its signature and text.
Does not belong here: documentation that a program writes from code (lost).
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive, directives

from citelock_sites.rst.context import context_of, names
from citelock_sites.rst.ids import sphinx_id
from citelock_sites.rst.lenient import Lenient

_PYTHON = frozenset(
    names(
        "function class method attribute property data exception staticmethod classmethod decorator "
        "decoratormethod type"
    )
)
_STANDARD = frozenset(names("option cmdoption envvar confval describe object setting"))
_DOMAINS = frozenset(names("py js c cpp rst std http rust go java rb php"))
_NAME = re.compile(r"(?:\w+\s+)*?([\w.$]+)\s*(?:[(\[:=]|$)")


def is_object(name: str, domain: str) -> bool:
    """Return whether a directive describes an object."""
    prefix, colon, kind = name.rpartition(":")
    if colon:
        return prefix in _DOMAINS
    return kind in _STANDARD or (domain == "py" and kind in _PYTHON)


def object_name(signature: str, module: str, above: str) -> str:
    """Return the full name in a Python signature."""
    found = _NAME.match(signature.strip().removeprefix("async ").strip())
    name = found[1] if found else ""
    return ".".join(part for part in (module, above, name) if part) if name else ""


class SetModule(Directive):  # type: ignore[misc]
    """`module`, `currentmodule`: where the objects that follow belong."""

    required_arguments = 1
    has_content = True
    option_spec = dict.fromkeys(
        names("platform synopsis deprecated no-index noindex no-index-entry"), directives.unchanged
    )

    def run(self) -> list[Any]:
        """Note the module; its own directive leaves its id, too."""
        name = self.arguments[0].strip()
        context_of(self.state.document).module = "" if name == "None" else name
        if self.name.endswith("currentmodule"):
            return []
        return [nodes.target("", "", ids=[f"module-{name}"])]


class SetProgram(Directive):  # type: ignore[misc]
    """`program`: whose options follow."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[Any]:
        """Note the program."""
        name = "-".join(self.arguments[0].split())
        context_of(self.state.document).program = "" if name == "None" else name
        return []


class ObjectDescription(Lenient):
    """A signature, and what is said of it."""

    required_arguments = 1
    optional_arguments = 0

    def run(self) -> list[Any]:
        """Return a list of definitions with one item."""
        context = context_of(self.state.document)
        signatures = [line.strip() for line in self.arguments[0].replace("\\\n", "").splitlines() if line.strip()]
        kind = self.name.rpartition(":")[2]
        heads = []
        for signature in signatures:
            head = nodes.term("", "", nodes.literal("", signature))
            if name := self._id(kind, signature):
                head["ids"].append(name)
            heads.append(head)
        body = nodes.definition()
        module = context.module
        above = _above(self.state)
        if kind in ("class", "exception") and signatures:
            own = object_name(signatures[0], "", "")
            self.state.memo.citelock_above = f"{above}.{own}" if above else own
        if self.content:
            self.state.nested_parse(self.content, self.content_offset, body)
        self.state.memo.citelock_above = above
        context.module = module
        return [nodes.definition_list("", nodes.definition_list_item("", *heads, body))]

    def _id(self, kind: str, signature: str) -> str:
        if "no-index" in self.options or "noindex" in self.options:
            return ""
        if kind in ("option", "cmdoption"):
            program = context_of(self.state.document).program
            first = re.split(r"[=\[,\s]", signature)[0]
            return sphinx_id(f"cmdoption-{program}" if program else "cmdoption", first)
        if kind in ("envvar", "confval"):
            return sphinx_id(kind, signature.split()[0])
        prefix = self.name.rpartition(":")[0] or "py"
        if prefix != "py" or kind in ("describe", "object", "setting"):
            return ""
        return object_name(signature, context_of(self.state.document).module, _above(self.state))


def _above(state: Any) -> str:
    above: str = getattr(state.memo, "citelock_above", "")
    return above
