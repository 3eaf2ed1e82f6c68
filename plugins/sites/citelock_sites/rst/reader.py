"""docutils' reader of a standalone page, as Sphinx sets it up.

Belongs here: which transforms run. Does not belong here: parsing, HTML.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.readers.standalone import Reader
from docutils.transforms import Transform
from docutils.transforms.references import DanglingReferences

from citelock_sites.markup import MarkupError

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
