"""Ids of a Sphinx page.

Belongs here: ids by docutils' rule and by that of Sphinx. Does not belong here: numbering of duplicates.
"""

from __future__ import annotations

import re
import unicodedata

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
