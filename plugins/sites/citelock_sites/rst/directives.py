"""Sphinx's directives, beside those of docutils: which class reads which name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList

from citelock_sites.rst.context import RstContext, context_of, names
from citelock_sites.rst.inclusion import CodeBlock, Highlight, Include, LiteralInclude, TreeCsvTable
from citelock_sites.rst.reader import Lenient, sphinx_id, term_id


class Glossary(Directive):  # type: ignore[misc]
    """`glossary`: terms, one or more above each other, and their meaning below, indented."""

    has_content = True
    option_spec = dict.fromkeys(("sorted",), directives.flag)

    def run(self) -> list[Any]:
        """Return a list of definitions."""
        items = [self._item(terms, meaning) for terms, meaning in self._entries()]
        if "sorted" in self.options:
            items.sort(key=lambda item: item.astext().lower())
        return [nodes.definition_list("", *items)]

    def _entries(self) -> list[tuple[list[str], StringList]]:
        found: list[tuple[list[str], StringList]] = []
        was_blank = True
        for number, line in enumerate(self.content):
            if not line.strip():
                was_blank = True
                if found:
                    found[-1][1].append(self.content[number : number + 1])
                continue
            if line.startswith((".. ", "..\t")):
                continue
            if line[0].isspace() and found:
                found[-1][1].append(self.content[number : number + 1])
            elif found and not was_blank and not any(text.strip() for text in found[-1][1]):
                found[-1][0].append(line)
            else:
                found.append(([line], StringList()))
            was_blank = False
        return found

    def _item(self, terms: list[str], meaning: StringList) -> Any:
        heads = []
        for line in terms:
            words, messages = self.state.inline_text(line.partition(" : ")[0], self.lineno)
            node = nodes.term("", "", *words, *messages)
            node["ids"].append(self._id(node.astext()))
            self.state.document.note_explicit_target(node)
            heads.append(node)
        body = nodes.definition()
        indents = [len(line) - len(line.lstrip()) for line in meaning if line.strip()]
        meaning.trim_left(min(indents, default=0))
        self.state.nested_parse(meaning, self.content_offset, body)
        return nodes.definition_list_item("", *heads, body)

    def _id(self, term: str) -> str:
        name, taken = term_id(term), self.state.document.ids
        number = 0
        while not name or name in taken:
            name, number = f"term-{number}", number + 1
        return name


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


class Unknown(Lenient):
    """A directive that nobody here knows: its words stay."""

    def run(self) -> list[Any]:
        """Return the words of the argument and the content."""
        context_of(self.state.document).lost[f"directive {self.name}"] += 1
        words = [nodes.paragraph("", "", *self.words(self.argument))] if self.argument else []
        return [*words, *self.inner()]


class Lost(Lenient):
    """A directive whose content is not text: a drawing, or documentation that a program writes."""

    def run(self) -> list[Any]:
        """Return the source of a drawing, without generated parts."""
        context_of(self.state.document).lost[f"directive {self.name}"] += 1
        text = "\n".join(self.content)
        if self.name.startswith(("auto", "raw")) or not text.strip():
            return []
        return [nodes.literal_block(text, text, language=self.name)]


class Silent(Lenient):
    """A directive that shows nothing."""

    def run(self) -> list[Any]:
        """Return nothing."""
        return []


class Toctree(Lenient):
    """The table of the pages below; readers see it as navigation."""

    def run(self) -> list[Any]:
        """Note the entries."""
        context_of(self.state.document).toctrees.append(list(self.content))
        return []


class SeeAlso(Lenient):
    """References of Sphinx."""

    def run(self) -> list[Any]:
        """Return an admonition with a title."""
        words = [nodes.paragraph("", "", *self.words(self.argument))] if self.argument else []
        return self.named([nodes.admonition("", nodes.title("", "See also"), *words, *self.inner())])


class VersionChange(Lenient):
    """A note of what a version changed: `versionadded`; its text begins behind the version, or on a later line."""

    def run(self) -> list[Any]:
        """Return an admonition whose first paragraph begins with the version."""
        version, *rest = self.argument.split(None, 1) or [""]
        if self.name == "deprecated-removed" and rest:
            removed, *rest = rest[0].split(None, 1)
            version = f"{version}, removed in version {removed}"
        words = [nodes.paragraph("", "", *self.words(rest[0]))] if rest else []
        found = [*words, *self.inner()]
        is_text = bool(found) and isinstance(found[0], nodes.paragraph)
        label = nodes.strong("", f"{_CHANGES[self.name.lower()]} {version}{':' if is_text else ''}")
        if is_text:
            found[0][:0] = [label, nodes.Text(" ")]
        else:
            found.insert(0, nodes.paragraph("", "", label))
        return self.named([nodes.admonition("", *found)])


class Labelled(Lenient):
    """A tab, card or dropdown: its label in bold before its content."""

    def run(self) -> list[Any]:
        """Return label and content."""
        return self.named([*self.labelled(self.argument), *self.inner()])


class CodeTab(Lenient):
    """A tab of code: language and label, or the language alone."""

    def run(self) -> list[Any]:
        """Return label and code."""
        language, _, label = self.argument.partition(" ")
        text = "\n".join(self.content)
        code = nodes.literal_block(text, text, language=language)
        return [*self.labelled(label.strip() or language), code]


class Transparent(Lenient):
    """A box whose argument is layout, and whose content stays."""

    def run(self) -> list[Any]:
        """Return the content."""
        return self.named(self.inner())


class Only(Lenient):
    """Content for some builders only: that of HTML stays."""

    def run(self) -> list[Any]:
        """Return the content if its condition is true for HTML."""
        return self.inner() if _holds(self.argument) else []


class Centered(Lenient):
    """A line in bold."""

    def run(self) -> list[Any]:
        """Return the line."""
        return self.labelled(self.argument)


class Verbatim(Lenient):
    """Text to the letter, such as a grammar."""

    def run(self) -> list[Any]:
        """Return the text as code."""
        text = "\n".join([*([self.argument] if self.argument else []), *self.content])
        return [nodes.literal_block(text, text, language="")]


class Math(Lenient):
    """A formula, as it is written."""

    def run(self) -> list[Any]:
        """Return the formula as code; its label is the id that Sphinx gives."""
        text = "\n".join([*([self.argument] if self.argument else []), *self.content]).strip()
        block = nodes.literal_block(text, text, language="latex")
        if label := self.options.get("label") or self.options.get("name"):
            block["ids"].append(f"equation-{nodes.make_id(label)}")
        return [block]


def _holds(condition: str) -> bool:
    """Return whether a condition of `only` is true for HTML: its tags joined by `and`, `or`, `not`."""
    words = re.findall(r"\w+|[()]", condition)
    return any(all(_tag(part) for part in _split(either, "and")) for either in _split(words, "or"))


def _split(words: list[str], at: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == at:
            parts.append([])
        elif word not in "()":
            parts[-1].append(word)
    return parts


def _tag(words: list[str]) -> bool:
    known = bool(words) and words[-1] in ("html", "builder_html", "format_html")
    return known != (words.count("not") % 2 == 1)


_CHANGES: Mapping[str, str] = MappingProxyType(
    {
        "versionadded": "New in version",
        "versionchanged": "Changed in version",
        "deprecated": "Deprecated since version",
        "versionremoved": "Removed in version",
        "version-added": "New in version",
        "version-changed": "Changed in version",
        "version-deprecated": "Deprecated since version",
        "version-removed": "Removed in version",
        "deprecated-removed": "Deprecated since version",
    }
)


def _table() -> dict[str, type[Directive]]:
    found: dict[str, type[Directive]] = {
        "toctree": Toctree,
        "include": Include,
        "literalinclude": LiteralInclude,
        "csv-table": TreeCsvTable,
        "glossary": Glossary,
        "highlight": Highlight,
        "only": Only,
        "math": Math,
        "centered": Centered,
        "code-tab": CodeTab,
        "seealso": SeeAlso,
        "program": SetProgram,
    }
    for together, kind in (
        ("code-block sourcecode code prompt parsed-code ipython console testcode testoutput doctest", CodeBlock),
        (" ".join(_CHANGES), VersionChange),
        ("tab group-tab tab-item dropdown card grid-item-card details collapse toggle hint-box", Labelled),
        (
            "tabs tab-set tab-set-code content-tabs grid grid-item card-carousel hlist ifconfig compound-box",
            Transparent,
        ),
        ("index tabularcolumns sectionauthor codeauthor todo todolist date default-domain testsetup", Silent),
        ("testcleanup nosearch header footer sectnum raw-html acks-list meta-list", Silent),
        ("productionlist", Verbatim),
        ("graphviz digraph graph mermaid uml plantuml blockdiag inheritance-diagram plot jupyter-execute raw", Lost),
        ("automodule autoclass autofunction automethod autodata autoattribute autoexception autosummary", Lost),
        ("autodoc automod apidoc argparse click openapi swagger autohttp youtube video iframe", Lost),
        ("module currentmodule py:module py:currentmodule js:module", SetModule),
    ):
        found.update(dict.fromkeys(together.split(), kind))
    return found


_DIRECTIVES: Mapping[str, type[Directive]] = MappingProxyType(_table())


def directive_of(name: str, context: RstContext, known: Callable[[str], Any]) -> Any:
    """Return the class of a directive and messages, as docutils expects them; `known` looks it up in docutils
    itself."""
    lowered = name.lower()
    if (own := _DIRECTIVES.get(lowered)) is not None:
        return own, []
    if is_object(lowered, context.settings.domain):
        return ObjectDescription, []
    found, _ = known(name)
    return found or Unknown, []
