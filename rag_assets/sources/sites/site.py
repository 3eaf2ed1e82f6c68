"""The parts of a documentation site, for any generator, and which one made a tree of files: those of a folder, a git
working tree, a zip or a prefix of a bucket, read in place and within limits."""

from __future__ import annotations

import os
import posixpath
import stat
import zipfile
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import quote, unquote

from rag_assets.sources.base import SourceError
from rag_assets.steps.files.file_text import MOST_RATIO, RATIO_FROM
from rag_assets.steps.files.records import FileError, decoded
from rag_serving.artifacts.store import open_file
from rag_serving.plugins import loaded

GROUP = "citelock.sources"
"""Of the entry points of generators that plug-ins read, named as in `GENERATORS`; each gives a `Site`."""
SUMMARY = "SUMMARY.md"
"""The table of contents of a book, where the chapters stand beside it."""


@dataclass(frozen=True)
class SiteGenerator:
    """A generator: `signs` are paths of files that only it has, below where its files begin."""

    signs: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()  # of its files, without a sign
    beside: tuple[str, ...] = ()  # files and folders (`x/`), one of which must be beside a sign; empty: none


def _programs(*stems: str) -> tuple[str, ...]:
    return tuple(f"{stem}.{ending}" for stem in stems for ending in ("js", "ts", "mjs", "cjs", "mts", "cts"))


_ASCIIDOC = (".adoc", ".asciidoc", ".asc")
_HUGO = tuple(
    f"{stem}.{ending}"
    for stem in ("hugo", "config", "config/_default/hugo", "config/_default/config")
    for ending in ("toml", "yaml", "yml", "json")
)
GENERATORS: Mapping[str, SiteGenerator] = MappingProxyType(
    {
        "docusaurus": SiteGenerator((*_programs("docusaurus.config"), "sidebars.js")),
        "mkdocs": SiteGenerator(("mkdocs.yml", "mkdocs.yaml")),
        "sphinx": SiteGenerator(("conf.py",), (".rst",), ("index.rst", "index.md", "contents.rst", "index.txt")),
        "html": SiteGenerator((), (".html", ".htm", ".xhtml")),
        "mdbook": SiteGenerator(("book.toml", "src/SUMMARY.md")),
        "eleventy": SiteGenerator(_programs(".eleventy", "eleventy.config")),
        "jekyll": SiteGenerator(("_config.yml", "_config.yaml", "_config.toml")),
        "hugo": SiteGenerator(_HUGO, (), ("content/", "layouts/", "themes/")),
        "github": SiteGenerator((), (".md", ".markdown", ".mdx")),
    }
)
"""By the name that `site` has; where two are shown at one place, the first counts. Where nothing is
shown, the one counts whose files are most; `github` is what is left."""


def found_site(names: Sequence[str], wanted: str, key: str) -> tuple[str, str, Site]:
    """Return the generator of a tree of files, the folder where its files begin ("" is the root), and its rules.
    `wanted`: `site` of the settings; `auto` looks for the signs of each, the ones nearest to the root count. Raises
    SourceError: no such generator is known, its plug-in is not installed, or the files are AsciiDoc."""
    if wanted != "auto" and wanted not in GENERATORS:
        raise SourceError(f"site {wanted!r} is not read; set sources.{key}.site to {' or '.join(sorted(GENERATORS))}")
    asked = GENERATORS if wanted == "auto" else {wanted: GENERATORS[wanted]}
    places = [
        (folder.count("/") + bool(folder), at, folder, name)
        for at, (name, generator) in enumerate(asked.items())
        for folder in _places(names, generator)
    ]
    if not places:
        name = _most(names, key) if wanted == "auto" else wanted
        return name, "", open_site(name, key)
    _, _, folder, name = min(places)
    return name, folder, open_site(name, key)


def open_site(name: str, key: str = "") -> Site:
    """Return the rules of a generator. Raises SourceError if its plug-in is not installed."""
    match name:
        case "html":
            from rag_assets.sources.sites.built_html import BuiltSite

            return BuiltSite()
        case "mdbook":
            from rag_assets.sources.sites.mdbook import MdBookSite

            return MdBookSite()
        case "github":
            from rag_assets.sources.sites.markdown_page import GithubSite

            return GithubSite()
    if name not in loaded(GROUP):
        raise SourceError(
            f"source {key!r} is a site of {name}: pip install 'citelock[sites]' on the machine that builds"
        )
    site: Site = loaded(GROUP)[name].load()()
    return site


def _most(names: Sequence[str], key: str) -> str:
    """Return the generator that reads most of the files; that of Markdown where another reads as many."""
    counts = {name: sum(one.lower().endswith(of.endings) for one in names) for name, of in GENERATORS.items()}
    name = max(counts, key=lambda name: (counts[name], name == "github"))
    if sum(one.lower().endswith(_ASCIIDOC) for one in names) > counts[name]:
        raise SourceError(f"source {key!r} is AsciiDoc: set path to the HTML that Asciidoctor or Antora builds of it")
    return name


def _has(names: Sequence[str], folder: str) -> bool:
    """Return whether a folder, written with `/` at its end, is among sorted names."""
    at = bisect_left(names, folder)
    return at < len(names) and names[at].startswith(folder)


def _places(names: Sequence[str], generator: SiteGenerator) -> list[str]:
    folders = []
    known = frozenset(names) if generator.beside else frozenset()
    for name in names:
        for sign in generator.signs:
            if name == sign or name.endswith(f"/{sign}"):
                folder = name[: -len(sign)]
                beside = [f"{folder}{one}" for one in generator.beside]
                if not beside or any(one in known or (one[-1] == "/" and _has(names, one)) for one in beside):
                    folders.append(posixpath.normpath(folder or ".").removeprefix("."))
    return folders


class SourceTree(Protocol):
    """The files of a folder, an archive, or a git working tree, by their names below its root, with `/`."""

    @property
    def names(self) -> Sequence[str]:
        """All files, sorted; hidden ones and links are left aside."""
        ...

    def stamp(self, name: str) -> str:
        """Return a value that changes with a file; the file is not opened."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises KeyError: there is none of that name. Raises FileError: it cannot be
        read, or is larger than allowed."""
        ...


def has_file(tree: SourceTree, name: str) -> bool:
    """Return whether a tree has a file of this name."""
    at = bisect_left(tree.names, name)
    return at < len(tree.names) and tree.names[at] == name


def quoted(path: str) -> str:
    """Return a path as in addresses; bytes of a name that are no UTF-8 stay unchanged."""
    return quote(path, errors="surrogateescape")


def text_of(content: bytes) -> str:
    """Return the text of a file with `\\n` at the ends of its lines. Raises FileError if it is none."""
    return decoded(content).replace("\r\n", "\n").replace("\r", "\n")


def settings_text(tree: SourceTree, name: str) -> str:
    """Return the text of a file of settings. Raises FileError, naming it, if it cannot be read."""
    try:
        return text_of(tree.read(name))
    except FileError as error:
        raise FileError(f"{name}: {error}") from None


@dataclass(frozen=True)
class SitePage:
    """A page of the site, before it is read."""

    name: str  # of its file in the tree
    path: str  # of its address, quoted, below `base_url`: `ch01-02.html`, `guides/setup/`; empty: the root of the site
    title: str | None = None  # in the navigation; None: the page says it
    parents: tuple[str, ...] = ()  # names of the pages above it in the navigation, root first
    category: str | None = None
    number: str | None = None  # of its chapter in a book, such as 3.2
    version: str = ""  # that it is about, where the site has several: `version 3.2`, `unreleased version next`
    canonical: str = ""  # the address that it calls its own, as written; empty: it names none
    is_document: bool = False  # whether it is read as files are (a PDF), not by the rules of a generator


@dataclass(frozen=True, eq=False)
class SitePlan:
    """The pages of a site in reading order, and why other files of it are none, by name."""

    generator: str  # name in `detect.GENERATORS`
    pages: Sequence[SitePage]
    excluded: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()  # names of files that shape all pages: where one changes, all are read again
    facts: Mapping[str, Any] = field(default_factory=dict)  # what else bodies need to know of the site, as JSON has it
    roots: tuple[str, ...] = (
        "",
    )  # folders that addresses of pages, and of files that are served as they are, begin at
    documents: Sequence[SitePage] = ()  # files that are no pages and are read as documents; filled in by the source
    addresses: Mapping[str, str] = field(default_factory=dict)  # of the pages, by name; filled in by the source
    base_url: str = ""  # where the site is served, with `/` at its end; filled in by the source

    @cached_property
    def by_name(self) -> Mapping[str, SitePage]:
        """The pages and documents by the names of their files."""
        return {page.name: page for page in (*self.pages, *self.documents)}

    @cached_property
    def by_path(self) -> Mapping[str, SitePage]:
        """The pages by their paths, not quoted, without `/` at the ends; the first where two have one."""
        return {unquote(page.path).strip("/"): page for page in reversed(self.pages)}

    def address(self, page: SitePage) -> str:
        """Return the address of a page: the target of links to it, before `#`."""
        return self.addresses.get(page.name) or f"{self.base_url or '/'}{page.path}"


@dataclass(frozen=True)
class SiteBody:
    """A page as its generator shows it.

    `html` has one `<main>`: headings carry the ids that the generator gives them, links to other pages of the site are
    those of `SitePlan.address` (and `#id`). Code is verbatim in `<pre><code class="language-x">`, an admonition is a
    `<blockquote>` that begins with its title in bold, a tab a paragraph in bold before its content.
    """

    html: str
    title: str
    slug: str | None = None
    labels: tuple[str, ...] = ()  # tags and keywords
    category: str | None = None
    lang: str | None = None
    read: tuple[str, ...] = ()  # names of other files that it includes
    reads_site: bool = False  # whether any page may change what it shows: a reference of it leads nowhere yet
    lost: Mapping[str, int] = field(default_factory=dict)  # what could not be carried over, by kind, and how often
    updated_at: datetime | None = None  # where the page says when it was changed


class ExcludedPageError(Exception):
    """A page that its own front matter or head takes out: a draft, `noindex`; the message says why."""


class Site(Protocol):
    """The rules of one generator. It keeps nothing between calls: a plan can be used in another process."""

    def plan(self, tree: SourceTree) -> SitePlan:
        """Return the pages that the generator would make of a tree."""
        ...

    def body(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        """Return one of them as the generator would show it. Raises ExcludedPageError: it is left out on purpose.
        Raises FileError: it cannot be read."""
        ...


SCHEME = "s3:"
MOST_OBJECTS = 200_000
_RETRIES = 6
_TRIES = 3
_TIMEOUT_S = 60
_FOREVER = datetime(1970, 1, 1, tzinfo=UTC)


def is_object_prefix(path: Path) -> bool:
    """Return whether a path is `s3://BUCKET/PREFIX`, as a path has it: with one slash."""
    return len(path.parts) > 1 and path.parts[0] == SCHEME


def object_tree(path: Path, key: str, max_bytes: int) -> ObjectTree:
    """List the objects below `s3://BUCKET/PREFIX`, all of them or none; a larger one than `max_bytes` cannot be read.
    Raises SourceError: they cannot be listed to the end, there is none, or there are too many."""
    try:
        import obstore
    except ImportError:
        raise SourceError(f"sources.{key}.path is an object store; install citelock[s3]") from None
    bucket, prefix = path.parts[1], "/".join(path.parts[2:])
    address = f"s3://{bucket}/{prefix}"
    try:
        from obstore.store import S3Store

        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        store = S3Store(
            bucket,
            prefix=prefix or None,
            client_options={"timeout": f"{_TIMEOUT_S}s", "allow_http": endpoint.startswith("http://")},
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=3 * _TIMEOUT_S)},
        )
        listed = [one for page in obstore.list(store, chunk_size=1000) for one in page]
    except (obstore.exceptions.BaseError, OSError, ValueError) as error:
        raise SourceError(f"{address} cannot be listed, and nothing was deleted: {_line(error)}") from None
    return ObjectTree(store, address, key, listed, max_bytes)


class ObjectTree:
    """The objects of a prefix by their names below it; those whose names a folder would hide are left aside."""

    def __init__(self, store: Any, address: str, key: str, listed: Sequence[Any], max_bytes: int) -> None:

        if len(listed) > MOST_OBJECTS:
            raise SourceError(f"{address} has more than {MOST_OBJECTS:,} objects; make several sources of it")
        self._store, self._max_bytes = store, max_bytes
        self._objects = {
            str(one["path"]): one for one in listed if not any(map(is_left_aside, str(one["path"]).split("/")))
        }
        if not self._objects:
            raise SourceError(f"{address} holds no object; set sources.{key}.path to a prefix of documents")
        self.names: Sequence[str] = sorted(self._objects)

    def stamp(self, name: str) -> str:
        """Return a value that changes with an object: its size and ETag."""
        one = self._objects[name]
        tag = one.get("e_tag") or one["last_modified"].isoformat()
        return f"{one['size']}.{str(tag).strip(chr(34))}"

    def written_at(self, name: str) -> datetime:
        """Return when an object was written."""
        found = self._objects[name]["last_modified"]
        return found.astimezone(UTC) if isinstance(found, datetime) else _FOREVER

    def touched_at(self, name: str) -> float:
        """Return 0 if the ETag identifies an object's content, else the time of its writing."""
        return 0.0 if self._objects[name].get("e_tag") else self.written_at(name).timestamp()

    def read(self, name: str) -> bytes:
        """Return the content of an object. Raises KeyError: there is none of that name. Raises FileError: it cannot be
        read, is larger than allowed, or changed since it was listed."""
        import obstore

        one = self._objects[name]
        check_size(one["size"], self._max_bytes)
        options: Any = {"if_match": one["e_tag"]} if one.get("e_tag") else {}
        for tried in range(1, _TRIES + 1):
            try:
                return within(bytes(obstore.get(self._store, name, options=options).bytes()), self._max_bytes)
            except obstore.exceptions.PreconditionError:
                raise FileError("it changed while it was read; the next build reads it") from None
            except FileNotFoundError:
                raise FileError("it cannot be fetched: it is not there any more") from None
            except (obstore.exceptions.BaseError, OSError) as error:  # also one that drops within a body
                if tried == _TRIES:
                    raise FileError(f"it cannot be fetched: {_line(error)}") from None
        raise AssertionError


def _line(error: Exception) -> str:
    """Return an error on one line, without the request's contents."""
    return " ".join(str(error).split())[:200]


MOST_FILES = 200_000
MAX_ARCHIVE_BYTES = 8 * 1024**3
"""Unpacked."""
_LEFT_ASIDE = frozenset({"__MACOSX", "node_modules", "__pycache__"})


class FileTree(SourceTree, Protocol):
    """A `SourceTree` that also knows when its files were written."""

    def written_at(self, name: str) -> datetime:
        """Return when a file's content was written. Raises KeyError: there is none of that name."""
        ...

    def touched_at(self, name: str, /) -> float:
        """Return the time of a file's last writing, in seconds since 1970; 0 if the stamp identifies its content."""
        ...


class LargeFileError(FileError):
    """A file is larger than allowed."""


@contextmanager
def opened_tree(path: Path, key: str, max_bytes: int) -> Iterator[FileTree]:
    """Yield the files of a folder, zip or `s3://BUCKET/PREFIX`; a zip's only folder is left out of the names, and a
    larger file than `max_bytes` cannot be read. Raises SourceError: it does not exist, is unreadable, has no file, or
    has too many."""
    if is_object_prefix(path):
        yield object_tree(path, key, max_bytes)
        return
    if path.is_dir():
        yield FolderTree(path, key, max_bytes)
        return
    with _opened_zip(path, key) as archive:
        tree = ZipTree(archive, path, key, max_bytes)
        tops = {name.partition("/")[0] for name in tree.names if "/" in name}
        is_wrapped = len(tops) == 1 and all("/" in name for name in tree.names)
        yield SubTree(tree, tops.pop()) if is_wrapped else tree


def _opened_zip(path: Path, key: str) -> zipfile.ZipFile:
    """Return a zip file. Raises SourceError if it is none."""
    mend = f"set sources.{key}.path to a folder or zip of documents, or to s3://BUCKET/PREFIX"
    if not path.is_file():
        raise SourceError(f"{path} does not exist; {mend}")
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise SourceError(f"{path} is not a readable zip file ({error}); {mend}") from None


class FolderTree:
    """The files of a folder and of those below it; hidden ones, links and installed packages are left aside."""

    def __init__(self, folder: Path, key: str, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._files: dict[str, os.stat_result] = {}
        try:
            for name, found in _walked(folder, ""):
                self._files[name] = found
                if len(self._files) > MOST_FILES:
                    raise SourceError(f"folder {folder} has more than {MOST_FILES:,} files; make several sources of it")
        except OSError as error:
            raise SourceError(f"folder {folder} cannot be read ({error.strerror}); check its permissions") from None
        if not self._files:
            raise SourceError(f"folder {folder} holds no file; set sources.{key}.path to a folder of documents")
        self.names: Sequence[str] = sorted(self._files)

    def stamp(self, name: str) -> str:
        found = self._files[name]
        return f"{found.st_size}.{found.st_mtime_ns}.{found.st_ctime_ns}.{found.st_ino}"

    def written_at(self, name: str) -> datetime:
        return datetime.fromtimestamp(self._files[name].st_mtime_ns // 1_000_000 / 1000, UTC)

    def touched_at(self, name: str) -> float:
        found = self._files[name]
        return max(found.st_mtime_ns, found.st_ctime_ns) / 1e9

    def read(self, name: str) -> bytes:
        if name not in self._files:
            raise KeyError(name)
        check_size(self._files[name].st_size, self._max_bytes)
        try:
            with open_file(self._folder / name) as stream:
                return within(stream.read(self._max_bytes + 1), self._max_bytes)
        except OSError as error:
            raise FileError(f"it cannot be opened: {error.strerror}") from None


class ZipTree:
    """The files of a zip. Names are labels: nothing is unpacked to disk; one that leads elsewhere does not count."""

    def __init__(self, archive: zipfile.ZipFile, path: Path, key: str, max_bytes: int) -> None:
        self._archive, self._max_bytes = archive, max_bytes
        entries = archive.infolist()
        if len(entries) > MOST_FILES:
            raise SourceError(f"{path} has more than {MOST_FILES:,} files; make several sources of it")
        self._entries = {one.filename: one for one in entries if _counts(one)}
        if sum(one.file_size for one in self._entries.values()) > MAX_ARCHIVE_BYTES:
            raise SourceError(f"{path} unpacks to more than {MAX_ARCHIVE_BYTES} bytes; make several sources of it")
        if not self._entries:
            raise SourceError(f"{path} holds no file; set sources.{key}.path to a folder or zip of documents")
        self.names: Sequence[str] = sorted(self._entries)

    def stamp(self, name: str) -> str:
        entry = self._entries[name]
        return f"{entry.file_size}.{entry.CRC:08x}"

    def written_at(self, name: str) -> datetime:
        try:
            return datetime(*self._entries[name].date_time, tzinfo=UTC)
        except ValueError:
            return datetime(1980, 1, 1, tzinfo=UTC)

    def touched_at(self, _name: str) -> float:
        return 0.0

    def read(self, name: str) -> bytes:
        entry = self._entries[name]
        check_size(entry.file_size, self._max_bytes)
        if entry.file_size > max(RATIO_FROM, MOST_RATIO * entry.compress_size):
            raise FileError(f"it unpacks to more than {MOST_RATIO} times its size")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileError(f"it is packed by a method that is not read ({entry.compress_type})")
        try:
            with self._archive.open(entry) as stream:
                return within(stream.read(self._max_bytes + 1), self._max_bytes)
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            raise FileError(f"it cannot be unpacked: {error}") from None


class SubTree:
    """The files below one folder of a tree, by their names below it."""

    def __init__(self, tree: FileTree, folder: str) -> None:
        self._tree, self._prefix = tree, f"{folder.rstrip('/')}/"
        at = len(self._prefix)
        self.names: Sequence[str] = [name[at:] for name in tree.names if name.startswith(self._prefix)]
        self._known = frozenset(self.names)

    def stamp(self, name: str) -> str:
        return self._tree.stamp(self._whole(name))

    def written_at(self, name: str) -> datetime:
        return self._tree.written_at(self._whole(name))

    def touched_at(self, name: str) -> float:
        return self._tree.touched_at(self._whole(name))

    def read(self, name: str) -> bytes:
        return self._tree.read(self._whole(name))

    def _whole(self, name: str) -> str:
        if name not in self._known:
            raise KeyError(name)
        return self._prefix + name


def resolved(name: str, target: str) -> str | None:
    """Return the name of the file that a relative path in a file leads to; None if it leads out of the tree."""
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return None if joined.startswith(("../", "/")) or joined == ".." else joined


def within(content: bytes, max_bytes: int) -> bytes:
    """Return a content that is no larger than allowed. Raises LargeFileError if it is."""
    check_size(len(content), max_bytes)
    return content


def check_size(size: int, max_bytes: int) -> None:
    """Raise LargeFileError if a file of so many bytes is too large."""
    if size > max_bytes:
        raise LargeFileError(f"it is larger than {max_bytes} bytes (max_file_bytes)")


def _walked(folder: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    waiting = [(folder, prefix)]
    while waiting:
        below, before = waiting.pop()
        with os.scandir(below) as entries:
            for entry in entries:
                if is_left_aside(entry.name) or entry.is_symlink():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((Path(entry.path), f"{before}{entry.name}/"))
                elif entry.is_file(follow_symlinks=False):
                    yield f"{before}{entry.name}", entry.stat(follow_symlinks=False)


def is_left_aside(part: str) -> bool:
    """Return whether a file or folder of this name is no document: hidden, or installed packages."""
    return (part.startswith(".") and not part.startswith(".eleventy.")) or part in _LEFT_ASIDE


def _counts(entry: zipfile.ZipInfo) -> bool:
    parts = entry.filename.split("/")
    is_link = stat.S_ISLNK(entry.external_attr >> 16)
    return not (entry.is_dir() or is_link or "\\" in entry.filename or any(not p or is_left_aside(p) for p in parts))


def by_folder(names: Sequence[str]) -> Mapping[str, list[str]]:
    """Return the names of a tree by folder; "" is its root."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(posixpath.dirname(name), []).append(name)
    return folders
