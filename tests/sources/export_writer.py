"""Writes a Confluence space export from page envelopes, the way Confluence writes one: a zip with `entities.xml`.

The shape follows real exports of Confluence 5.9, 8.5 and Cloud: objects in no particular order, texts in CDATA with a
space after each `]]`, users behind keys, an object for each historical version.
"""

from __future__ import annotations

import random
import zipfile
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

Envelope = dict[str, Any]
Viewers = Iterable[Mapping[str, str]]

_PACKAGE = 'package="com.atlassian.confluence"'
SPACE_ID = 99001


class Export:
    """Objects of one space; `add` pages, then `write`."""

    def __init__(self, key: str = "ENG", viewers: Viewers = ({"group": "staff"},), space_id: int = SPACE_ID) -> None:
        self._ids = iter(range(5_000_000 + space_id, 9_000_000))
        self._space_id = space_id
        self._users: dict[str, str] = {}
        self._labels: dict[tuple[str, str], str] = {}
        self.objects: list[str] = []
        self.files: dict[str, bytes] = {}
        self.properties = {"exportType": "space", "spaceKey": key, "createdByVersionNumber": "8.5.6"}
        self._object("Space", str(space_id), self._text("name", key.title()), self._text("key", key))
        for viewer in viewers:
            self._viewer("VIEWSPACE", viewer)
        self._viewer("EDITSPACE", {"group": "writers"})

    def add(self, *envelopes: Envelope, parent: str | None = None) -> Export:
        for envelope in envelopes:
            above = [str(one["id"]) for one in envelope.get("ancestors", [])][-1:]
            self._page(envelope, parent or "".join(above))
        return self

    def write(self, path: Path, seed: int = 7) -> Path:
        """The zip, with the objects in an order of the seed's."""
        shuffled = list(self.objects)
        random.Random(seed).shuffle(shuffled)
        xml = '<?xml version="1.0" encoding="UTF-8"?>\n<hibernate-generic datetime="2026-11-01 10:00:00">\n'
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr("entities.xml", xml + "\n".join(shuffled) + "\n</hibernate-generic>\n")
            lines = [f"{name}={value}" for name, value in self.properties.items()]
            out.writestr("exportDescriptor.properties", "\n".join(["#Sun Nov 01 10:00:00 UTC 2026", *lines]))
            for name, content in self.files.items():
                out.writestr(name, content)
        return path

    def historical(self, page_id: str, title: str, body: str, version: int = 1) -> None:
        """An old version of a page: an object with a body of its own."""
        old = self._next()
        original = self._ref("originalVersion", "Page", page_id)
        number = f'<property name="version">{version}</property>'
        status = self._text("contentStatus", "current")
        self._object("Page", old, self._text("title", title), number, status, original)
        self._body(old, "Page", body)

    def attach(
        self, page_id: str, name: str, content: bytes, attachment_id: str | None = None, version: int = 1
    ) -> str:
        """A file of a page, in the zip and as an object."""
        attachment_id = attachment_id or self._next()
        self._object(
            "Attachment",
            attachment_id,
            self._text("title", name),
            f'<property name="version">{version}</property>',
            self._text("contentStatus", "current"),
            self._ref("containerContent", "Page", page_id),
            '<property name="lastModificationDate">2026-03-01 10:00:00.000</property>',
        )
        self.files[f"attachments/{page_id}/{attachment_id}/{version}"] = content
        return attachment_id

    def comment(self, page_id: str, body: str, moment: str = "2026-03-02 10:00:00.000", status: str = "current") -> str:
        comment_id = self._next()
        self._object(
            "Comment",
            comment_id,
            '<property name="title"/>',
            '<property name="version">1</property>',
            f'<property name="creationDate">{moment}</property>',
            f'<property name="lastModificationDate">{moment}</property>',
            self._text("contentStatus", status),
            self._ref("containerContent", "Page", page_id),
        )
        self._body(comment_id, "Comment", body)
        return comment_id

    def restrict(
        self, page_id: str, kind: str, subjects: Iterable[Mapping[str, str]], list_members: bool = True
    ) -> str:
        """A set of permissions of a page; `subjects` name a `group` or a `user`."""
        set_id, members = self._next(), []
        owner = self._ref("owningSet", "ContentPermissionSet", set_id)
        for subject in subjects:
            members.append(self._next())
            self._object("ContentPermission", members[-1], self._text("type", kind), *self._subject(subject), owner)
        listed = "".join(
            f'<element class="ContentPermission" {_PACKAGE}><id name="id">{one}</id></element>' for one in members
        )
        collection = (
            f'<collection name="contentPermissions" class="java.util.SortedSet">{listed if list_members else ""}'
        )
        self._object(
            "ContentPermissionSet",
            set_id,
            self._text("type", kind),
            collection + "</collection>",
            self._ref("owningContent", "Page", page_id),
        )
        return set_id

    def _page(self, envelope: Envelope, parent: str) -> None:
        page_id, kind = str(envelope["id"]), {"blogpost": "BlogPost"}.get(envelope["type"], "Page")
        editor = envelope["version"].get("by", {}).get("username")
        moment = f"{datetime.fromisoformat(envelope['version']['when']):%Y-%m-%d %H:%M:%S.%f}"[:-3]
        self._object(
            kind,
            page_id,
            self._text("title", envelope["title"]),
            '<collection name="historicalVersions" class="java.util.Collection"/>',
            f'<property name="version">{envelope["version"]["number"]}</property>',
            '<property name="creationDate">2019-01-01 00:00:00.000</property>',
            f'<property name="lastModificationDate">{moment}</property>',
            '<property name="originalVersionId"/>' + self._text("contentStatus", envelope["status"]),
            self._ref("space", "Space", str(self._space_id)),
            self._ref("parent", "Page", parent) if parent else '<property name="parent"/>',
            self._ref("lastModifier", "ConfluenceUserImpl", self._user({"user": editor}), "key") if editor else "",
        )
        self._body(page_id, kind, envelope["body"]["storage"]["value"])
        for label in envelope["metadata"]["labels"]["results"]:
            self._label(page_id, label)
        lists = envelope["restrictions"]["read"]["restrictions"]
        users = [{"user": one.get("username") or one["accountId"], **one} for one in lists["user"]["results"]]
        groups = [{"group": one["name"]} for one in lists["group"]["results"]]
        if users or groups:
            self.restrict(page_id, "View", [*users, *groups])
            self.restrict(page_id, "Edit", [{"group": "nobody-else"}])

    def _label(self, page_id: str, label: Mapping[str, str]) -> None:
        name = label.get("prefix", "global"), label["name"]
        if name not in self._labels:
            self._labels[name] = self._next()
            self._object("Label", self._labels[name], self._text("name", name[1]), self._text("namespace", name[0]))
        refs = self._ref("label", "Label", self._labels[name]), self._ref("content", "Page", page_id)
        self._object("Labelling", self._next(), *refs)

    def _viewer(self, kind: str, viewer: Mapping[str, str]) -> None:
        anyone = (
            self._text("allUsersSubject", viewer["anyone"])
            if "anyone" in viewer
            else '<property name="allUsersSubject"/>'
        )
        space = self._ref("space", "Space", str(self._space_id))
        self._object(
            "SpacePermission", self._next(), space, self._text("type", kind), anyone, *self._subject(viewer, "group")
        )

    def _subject(self, subject: Mapping[str, str], group_name: str = "groupName") -> list[str]:
        if "group" in subject:
            return [self._text(group_name, subject["group"])]
        if "user" not in subject:
            return [f'<property name="{group_name}"/>']
        key = self._user(subject)
        return [f'<property name="{group_name}"/>', self._ref("userSubject", "ConfluenceUserImpl", key, "key")]

    def _user(self, subject: Mapping[str, str]) -> str:
        name = subject["user"]
        if name not in self._users:
            key = self._users[name] = subject.get("userKey") or f"8a7f8089{len(self._users):024x}"
            account = subject.get("accountId")
            self._object(
                "ConfluenceUserImpl",
                key,
                self._text("name", subject.get("username", name)),
                self._text("atlassianAccountId", account) if account else "",
                id_name="key",
            )
        return self._users[name]

    def _body(self, owner: str, kind: str, body: str) -> None:
        self._object(
            "BodyContent",
            self._next(),
            self._text("body", body),
            self._ref("content", kind, owner),
            '<property name="bodyType">2</property>',
        )

    def _object(self, kind: str, object_id: str, *parts: str, id_name: str = "id") -> None:
        inner = "\n".join(part for part in parts if part)
        text = f'<object class={quoteattr(kind)} {_PACKAGE}>\n<id name="{id_name}">{object_id}</id>\n{inner}\n</object>'
        self.objects.append(text)

    def _text(self, name: str, value: str) -> str:
        return f'<property name="{name}"><![CDATA[{value.replace("]]", "]] ")}]]></property>'

    def _ref(self, name: str, kind: str, object_id: str, id_name: str = "id") -> str:
        return f'<property name="{name}" class="{kind}" {_PACKAGE}><id name="{id_name}">{object_id}</id>\n</property>'

    def _next(self) -> str:
        return str(next(self._ids))
