"""`entities.xml` of a Confluence space export, as a stream of objects.

Belongs here: the shape of the file (`<object class=…>` with an id, properties and collections), and everything that
such a file may do to a parser.
Does not belong here: what the objects mean together (`space`), or the zip (`confluence_export`).

The shape is Hibernate's generic XML. A property is a text, or refers to another object by its id; a collection names
its elements' ids. Ids are numbers, for users a key. Exports of Confluence 3.4 to 8.5 and of Cloud were read with it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from rag_assets.sources.base import SourceError

MAX_OBJECT_BYTES = 64 * 1024**2
"""Of one object; the longest real body is 0.4 MB."""

_HEAD_BYTES = 64 * 1024
_CHUNK_BYTES = 256 * 1024
_ROOT = b"<hibernate-generic"
_FORBIDDEN = bytes(sign for sign in range(32) if sign not in b"\t\n\r")
_SPACED = re.compile(r"\]\] ")
_COMMENT = re.compile(rb"<!--(?:[^-]|-(?!-))*+-->")


@dataclass(frozen=True)
class Entity:
    """One object: its texts, the ids it refers to, and the ids of its collections, each by name."""

    kind: str
    id: str
    texts: dict[str, str] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    ref_kinds: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)

    def text(self, *names: str) -> str:
        """Return the first of these properties that says something."""
        return next((text for name in names if (text := self.texts.get(name, "").strip())), "")

    def ref(self, *names: str) -> str:
        """Return the id behind the first of these properties that refers to something."""
        return next((reference for name in names if (reference := self.refs.get(name, ""))), "")


def entities(stream: IO[bytes], kinds: Collection[str]) -> Iterator[Entity]:
    """Yield the objects of these classes in the order of the file; one object is in memory at a time.

    A document type is refused, so there are no entities to expand and nothing to fetch. Control characters, which
    Confluence writes and XML forbids, are left out.

    Raises:
        SourceError: this is not such a file, it is cut or broken, or one object is larger than MAX_OBJECT_BYTES.
    """
    from lxml import etree

    measured = _Measured(stream)
    parser = etree.iterparse(
        measured, events=("end",), tag="object", resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True
    )
    try:
        for _, element in parser:
            measured.since = 0
            if element.get("class") in kinds:
                yield _entity(element)
            _forget(element)
    except etree.XMLSyntaxError as error:
        raise SourceError(
            f"entities.xml is cut or broken: {' '.join(error.msg.split())}; export the space again"
        ) from None


class _Measured:
    """The file, checked at its head and counted between objects."""

    def __init__(self, stream: IO[bytes]) -> None:
        head = stream.read(_HEAD_BYTES)
        prolog, root, _ = head.partition(_ROOT)
        if not root:
            raise SourceError("entities.xml is not a Confluence export: it does not begin with <hibernate-generic>")
        if b"<!" in _COMMENT.sub(b"", prolog):
            raise SourceError("entities.xml has a document type, which no Confluence export has; it is not read")
        self._stream = stream
        self._head = head
        self.since = 0

    def read(self, _size: int = -1) -> bytes:
        content = self._head or self._stream.read(_CHUNK_BYTES)
        self._head = b""
        self.since += len(content)
        if self.since > MAX_OBJECT_BYTES:
            raise SourceError(f"entities.xml has an object of more than {MAX_OBJECT_BYTES} bytes; it is not read")
        return content.translate(None, _FORBIDDEN)


def _forget(element: Any) -> None:
    """Give an object's memory back, and that of what stood before it."""
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]


def _entity(element: Any) -> Entity:
    entity = Entity(element.get("class", ""), (element.findtext("id") or "").strip())
    for part in element:
        name = part.get("name", "")
        if part.tag == "collection":
            entity.lists[name] = [identifier.strip() for one in part.iter("id") if (identifier := one.text or "")]
        elif part.tag == "property" and (reference := part.find("id")) is not None:
            entity.refs[name] = (reference.text or "").strip()
            entity.ref_kinds[name] = part.get("class", "")
        elif part.tag == "property":
            entity.texts[name] = _restored(part.text or "")
    return entity


def _restored(text: str) -> str:
    """Return the text as it was: Confluence writes a space after every `]]`, so that none of them ends its CDATA
    section."""
    if "]] " not in text:
        return text
    if text.count("]]") == text.count("]] "):
        return _SPACED.sub("]]", text)
    return text.replace("]] >", "]]>")
