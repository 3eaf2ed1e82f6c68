"""`entities.xml` of a space export: its objects as REST would give them, and who may read what.

The shape is Hibernate's generic XML. A property is a text, or refers to another object by its id; a collection names
its elements' ids. Ids are numbers, for users a key. Exports of Confluence 3.4 to 8.5 and of Cloud were read with it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import IO, Any

from rag_assets.sources.base import SourceError
from rag_assets.steps.readers import Grants, restriction_readers
from rag_serving.access.principals import EVERYONE, NOBODY, intersect_readers

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
    Confluence writes and XML forbids, are left out. Raises SourceError: this is not such a file, it is cut or broken,
    or one object is larger than MAX_OBJECT_BYTES.
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
            # the memory of this object and of those before it
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
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


Envelope = dict[str, Any]
BODIES = frozenset({"BodyContent"})
_PERMISSIONS = ("SpacePermission", "ContentPermissionSet", "ContentPermission", "ConfluenceUserImpl")
DETAILS = frozenset({"Space", "Page", "BlogPost", "Attachment", "Comment", "Label", "Labelling", *_PERMISSIONS})
_TYPES = {"Page": "page", "BlogPost": "blogpost"}
_STORAGE = "2"  # bodyType; 0 is the wiki markup of Confluence 3, 1 what apps store
_NARROWS, _INDIFFERENT = "view", ("edit", "share")


@dataclass
class ExportedSpace:
    """Everything of an export but its bodies; all by raw id. Historical versions are left out."""

    site: str  # address that links begin with
    zone: tzinfo = UTC  # that the export's dates are in
    spaces: dict[str, str] = field(default_factory=dict)  # id -> key
    space_names: dict[str, str] = field(default_factory=dict)  # key -> name
    contents: dict[str, Entity] = field(default_factory=dict)  # pages and blog posts, whatever their status
    attachments: list[Entity] = field(default_factory=list)
    comments: list[Entity] = field(default_factory=list)
    _users: dict[str, Entity] = field(default_factory=dict)
    _labels: dict[str, Entity] = field(default_factory=dict)
    _labellings: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # content id -> label ids
    _sets: dict[str, Entity] = field(default_factory=dict)
    _sets_of: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # content id -> set ids
    _members: dict[str, list[Entity]] = field(default_factory=lambda: defaultdict(list))  # set id -> permissions
    _viewers: list[Entity] = field(default_factory=list)

    def read(self, objects: Iterable[Entity]) -> ExportedSpace:
        """Take in the objects of a file."""
        historical: set[str] = set()
        for one in objects:
            if one.kind in ("Page", "BlogPost", "Attachment", "Comment"):
                historical.update(one.lists.get("historicalVersions", ()))
                if one.ref("originalVersion") or one.text("originalVersion", "originalVersionId"):
                    continue
            self._take(one)
        for page_id in historical:
            self.contents.pop(page_id, None)
        self.attachments = [one for one in self.attachments if one.id not in historical]
        self.comments = [one for one in self.comments if one.id not in historical]
        return self

    def _take(self, one: Entity) -> None:
        match one.kind:
            case "Page" | "BlogPost":
                self.contents[one.id] = one
                self._sets_of[one.id].update(one.lists.get("contentPermissionSets", ()))
            case "Attachment":
                self.attachments.append(one)
            case "Comment":
                self.comments.append(one)
            case "Space":
                self.spaces[one.id] = one.text("key")
                self.space_names[one.text("key")] = one.text("name")
            case "ConfluenceUserImpl":
                self._users[one.id] = one
            case "Label":
                self._labels[one.id] = one
            case "Labelling":
                self._labellings[one.ref("content") or one.text("labelableId")].add(one.ref("label"))
            case "ContentPermissionSet":
                self._sets[one.id] = one
                self._sets_of[one.ref("owningContent")].add(one.id)
            case "ContentPermission":
                self._members[one.ref("owningSet")].append(one)
            case "SpacePermission" if one.text("type") == "VIEWSPACE":
                self._viewers.append(one)

    def keep_only(self, space: str | None) -> str:
        """Leave out content of other spaces; return the key of the space that stays. Raises SourceError: the export
        lacks that space, or has several and none was named."""
        keys = sorted({self.space_of(one) for one in self.contents.values()} - {""})
        if space is None and len(keys) > 1:
            raise SourceError(f"it holds the spaces {', '.join(keys)}; name one of them as the source's space")
        if not keys or (space is not None and space not in keys):
            holds = ", ".join(keys) or "no pages"
            raise SourceError(f"it does not hold the space {space!r} but {holds}" if space else "it holds no pages")
        key = space or keys[0]
        self.contents = {one.id: one for one in self.contents.values() if self.space_of(one) == key}
        return key

    def space_of(self, content: Entity) -> str:
        """Return the key of a page's space; empty if it is not said."""
        return self.spaces.get(content.ref("space"), "")

    def envelope(self, content: Entity, body: str | None = None) -> Envelope:
        """Return a page as REST v1 would give it."""
        return {
            "id": content.id,
            "type": _TYPES[content.kind],
            "status": content.text("contentStatus") or "current",
            "title": content.text("title"),
            "space": {"key": self.space_of(content), "name": self.space_names.get(self.space_of(content))},
            "version": {"number": number_of(content), "when": self.moment(content), "by": self._editor(content)},
            "extensions": {"position": int(position) if (position := content.text("position")).isdecimal() else None},
            "ancestors": [{"id": one, "title": self._title(one)} for one in self._ancestors(content)],
            "metadata": {"labels": {"results": list(self._labels_of(content))}},
            "body": {"storage": {"value": body}},
            "_links": {"base": self.site},
        }

    def _editor(self, content: Entity) -> Envelope:
        """Return the author of the version: a reference since Confluence 5.3, before that a name."""
        known = self._users.get(content.ref("lastModifier") or content.ref("creator"))
        return {"username": known.text("name") if known else content.text("lastModifierName", "creatorName")}

    def moment(self, content: Entity) -> str | None:
        """Return when it was last changed, as ISO 8601 with its zone; exports write local time without one."""
        written = content.text("lastModificationDate", "creationDate")
        try:
            return datetime.fromisoformat(written).replace(tzinfo=self.zone).isoformat()
        except ValueError:
            return written or None

    def grants(self, content: Entity) -> Grants:
        """Return a page's restrictions in the export; one that cannot be resolved lets nobody in."""
        own, fault = EVERYONE, None
        for set_id in sorted(self._sets_of.get(content.id, ())):
            level, why = self._set_readers(set_id)
            own, fault = intersect_readers(own, level), fault or why
        return Grants(tuple(self._ancestors(content)), own, fault)

    def permissions(self) -> list[Envelope]:
        """Return the viewers of the space, in the shape of REST's `expand=permissions`."""
        return [self._permission(one) for one in self._viewers if self._in_space(one)]

    def _in_space(self, permission: Entity) -> bool:
        spaces = {content.ref("space") for content in self.contents.values()}
        return permission.ref("space") in spaces

    def _permission(self, one: Entity) -> Envelope:
        """Return a permission; anonymous access only if explicit: a permission that names nobody may be one whose user
        is gone."""
        return {
            "operation": {"operation": "read", "targetType": "space"},
            "anonymousAccess": one.text("allUsersSubject") == "anonymous-users",
            "subjects": self._subjects([one]),
        }

    def _set_readers(self, set_id: str) -> tuple[str, str | None]:
        permissions = self._sets.get(set_id)
        kind = permissions.text("type").lower() if permissions else ""
        if kind in _INDIFFERENT:
            return EVERYONE, None
        if kind != _NARROWS:
            return (
                NOBODY,
                f"restrictions of type {kind!r} are not understood" if permissions else "restrictions are missing",
            )
        subjects = self._subjects(self._members.get(set_id, []))
        if not any(subject["results"] for subject in subjects.values()):
            return NOBODY, "its restrictions name nobody"
        return restriction_readers({"read": {"restrictions": subjects}}) or NOBODY, None

    def _subjects(self, permissions: Iterable[Entity]) -> Envelope:
        users, groups = [], []
        for one in permissions:
            if group := one.text("groupName", "group"):
                groups.append({"type": "group", "name": group})
            key = one.ref("userSubject")
            known = self._users.get(key)
            names = {
                "username": known.text("name") if known else one.text("userName"),
                "accountId": known.text("atlassianAccountId") if known else "",
                "userKey": key,
            }
            said = {name: value for name, value in names.items() if value}
            if user := ({"type": "known", **said} if said else None):
                users.append(user)
        return {"user": {"results": users}, "group": {"results": groups}}

    def _labels_of(self, content: Entity) -> Iterator[Envelope]:
        for label_id in self._labellings.get(content.id, ()):
            if label := self._labels.get(label_id):
                yield {"prefix": label.text("namespace") or "global", "name": label.text("name")}

    def _title(self, content_id: str) -> str:
        content = self.contents.get(content_id)
        return content.text("title") if content else ""

    def _ancestors(self, content: Entity) -> list[str]:
        """Return ids of the pages above, root first; they end where the chain leaves the export or runs in a ring."""
        chain: list[str] = []
        parent = content.ref("parent")
        while parent and parent not in chain and parent != content.id:
            chain.append(parent)
            above = self.contents.get(parent)
            parent = above.ref("parent") if above else ""
        return chain[::-1]


def number_of(content: Entity) -> int | None:
    """Return the version number, if there is one."""
    written = content.text("version", "attachmentVersion")
    return int(written) if written.isascii() and written.isdigit() else None


def page_bodies(objects: Iterable[Entity], wanted: ExportedSpace) -> Iterator[tuple[str, str | None]]:
    """Yield (id, body in storage format) of the export's contents and comments; None for any other format."""
    owners = {body: one.id for one in wanted.contents.values() for body in one.lists.get("bodyContents", ())}
    comments = {one.id for one in wanted.comments}
    for one in objects:
        owner = one.ref("content") or owners.get(one.id, "")
        if owner in wanted.contents or owner in comments:
            yield owner, one.texts.get("body", "") if one.text("bodyType") in (_STORAGE, "") else None
