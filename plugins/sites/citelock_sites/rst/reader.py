"""docutils' reader of a standalone page, as Sphinx sets it up."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.parsers.rst.states import Inliner
from docutils.readers.standalone import Reader
from docutils.transforms import Transform
from docutils.transforms.references import DanglingReferences

from citelock_sites.markup import MarkupError

_OTHER = re.compile(r"[^a-zA-Z0-9._]+")
_ENDS = re.compile(r"\A[-0-9._]+|-+\Z")


def make_id(name: str) -> str:
    """Return the id of a heading or label (`docutils.nodes.make_id`); empty if no letter is left."""
    from docutils import nodes

    return str(nodes.make_id(nodes.fully_normalize_name(name)))


def sphinx_id(prefix: str, name: str) -> str:
    """Return the id of a term or option, which keeps capitals (`sphinx.util.nodes.make_id`)."""
    from docutils import nodes

    text = f"{prefix}-{name}".translate(nodes._non_id_translate_digraphs).translate(nodes._non_id_translate)
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    return _ENDS.sub("", _OTHER.sub("-", " ".join(text.split())))


def term_id(term: str) -> str:
    """Return the id of a term of a glossary; empty if it has no letter that an id can have."""
    name = sphinx_id("term", term)
    return "" if name == "term" else name


class _AnyOption(dict[str, Any]):
    """An option table that has every name."""

    def __getitem__(self, key: str) -> Any:
        return directives.unchanged

    def __bool__(self) -> bool:
        return True


class Lenient(Directive):  # type: ignore[misc]
    """A directive whose options are read whatever they are called."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = _AnyOption()

    @property
    def argument(self) -> str:
        """Return the argument, empty if there is none."""
        return self.arguments[0] if self.arguments else ""

    def inner(self) -> list[Any]:
        """Return the nodes of the content, sections too."""
        node = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, node, match_titles=False)
        return list(node.children)

    def words(self, text: str) -> list[Any]:
        """Return the inline nodes of a text."""
        found, messages = self.state.inline_text(text, self.lineno)
        return [*found, *messages]

    def labelled(self, text: str) -> list[Any]:
        """Return a paragraph in bold, none without text."""
        return [nodes.paragraph("", "", nodes.strong("", "", *self.words(text)))] if text.strip() else []

    def named(self, found: list[Any]) -> list[Any]:
        """Return nodes of which the first bears the option `name`."""
        if found and self.options.get("name"):
            self.add_name(found[0])
        return found


MISSED_MAX = 5_000
"""Openings without an end; docutils writes a message for each, and one of 128 KB of them took 213 s."""
_INLINE_ENDS = ("emphasis", "strong", "interpreted_or_phrase_ref", "literal", "target", "substitution_ref")


class LinearInliner(Inliner):  # type: ignore[misc]
    """An inliner that remembers, for a paragraph, which end markers are absent from the rest of it."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: list[_End] = []
        self._missed = [0]

    def init_customizations(self, settings: Any) -> None:
        """See `Inliner`."""
        whole = Inliner()  # it makes its patterns of what its class has, and that of a class above it is not seen
        whole.init_customizations(settings)
        self.__dict__.update(whole.__dict__)
        self._ends = [_End(getattr(self.patterns, name), self._missed) for name in _INLINE_ENDS]
        for name, end in zip(_INLINE_ENDS, self._ends, strict=True):
            setattr(self.patterns, name, end)

    def parse(self, text: str, lineno: int, memo: Any, parent: Any) -> Any:
        """See `Inliner`."""
        outer = [end.none_within for end in self._ends]
        self._forget([0] * len(self._ends))
        try:
            return super().parse(text, lineno, memo, parent)
        finally:
            self._forget(outer)

    def _forget(self, lengths: list[int]) -> None:
        for end, length in zip(self._ends, lengths, strict=True):
            end.none_within = length


class _End:
    """A pattern of an end. What is searched is always a rest of the same paragraph."""

    def __init__(self, pattern: re.Pattern[str], missed: list[int]) -> None:
        self._pattern = pattern
        self._missed = missed  # how many openings of the page have no end
        self.none_within = 0  # length of the longest rest that has no end

    def search(self, rest: str) -> re.Match[str] | None:
        """Return the next end.

        Raises:
            MarkupError: too many openings have none.
        """
        found = None if len(rest) <= self.none_within else self._pattern.search(rest)
        if found is None:
            self.none_within = max(len(rest), self.none_within)
            self._missed[0] += 1
            if self._missed[0] > MISSED_MAX:
                raise MarkupError(f"more than {MISSED_MAX:,} openings of inline markup have no end")
        return found


SUBSTITUTED_MAX = 2_000_000
_NESTED_MAX = 10
_FAR = SUBSTITUTED_MAX + 1


class SortIds(Transform):  # type: ignore[misc]
    """Put a generated id of a section after its labels, as `sphinx.transforms.SortIds` does."""

    default_priority = 261

    def apply(self, **_options: Any) -> None:
        """Sort the ids of all sections."""
        for node in self.document.findall(nodes.section):
            if len(node["ids"]) > 1 and node["ids"][0].startswith("id"):
                node["ids"] = [*node["ids"][1:], node["ids"][0]]


class BoundSubstitutions(Transform):  # type: ignore[misc]
    """Refuse a page whose substitutions would make a large text of a small one."""

    default_priority = 210  # before docutils substitutes

    def apply(self, **_options: Any) -> None:
        """Add up the replacements of all references. Raises MarkupError if they are too large."""
        document = self.document
        lengths = {name: len(node.astext()) for name, node in document.substitution_defs.items()}
        inner = {
            name: [one["refname"] for one in node.findall(nodes.substitution_reference)]
            for name, node in document.substitution_defs.items()
        }
        for _ in range(_NESTED_MAX):
            lengths = {
                name: min(
                    len(document.substitution_defs[name].astext()) + sum(lengths.get(one, 0) for one in ones), _FAR
                )
                for name, ones in inner.items()
            }
        names = {nodes.fully_normalize_name(name): length for name, length in lengths.items()}
        used = document.findall(nodes.substitution_reference)
        if sum(names.get(nodes.fully_normalize_name(one["refname"]), 0) for one in used) > SUBSTITUTED_MAX:
            raise MarkupError(f"its substitutions stand for more than {SUBSTITUTED_MAX:,} characters")


class SphinxReader(Reader):  # type: ignore[misc]
    """A reader that leaves references alone that lead elsewhere."""

    def get_transforms(self) -> list[Any]:
        """Return the transforms."""
        return [
            *(one for one in super().get_transforms() if one is not DanglingReferences),
            SortIds,
            BoundSubstitutions,
        ]
