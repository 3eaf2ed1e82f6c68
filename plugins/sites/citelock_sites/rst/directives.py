"""Sphinx's directives, beside those of docutils: which class reads which name.

Belongs here: the table of names, structure (toctree, tabs, conditions, objects), what is not known.
Does not belong here: directives that include files or show code (`inclusion`), the HTML of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from citelock_sites.rst.context import RstContext, context_of
from citelock_sites.rst.glossary import Glossary
from citelock_sites.rst.inclusion import CodeBlock, Highlight, Include, LiteralInclude, TreeCsvTable
from citelock_sites.rst.lenient import Lenient
from citelock_sites.rst.objects import ObjectDescription, SetModule, SetProgram, is_object


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
    for names, kind in (
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
        found.update(dict.fromkeys(names.split(), kind))
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
