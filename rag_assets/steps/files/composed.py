"""Files that contain others: one body of several parts, each under its heading; readers of kinds that plug-ins bring.

Plug-ins join by entry points `citelock.formats`, named by the kind. Containers are read elsewhere (`file_text`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from rag_assets.steps.files.records import FileError, FileText, needs
from rag_assets.steps.formats.blocks import Block, Budget, Content, blocks_body, clean, noted
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.sections.reading import DirectReader
from rag_serving.plugins import loaded
from rag_serving.text.normalization import OMISSION

GROUP = "citelock.formats"
SCANNED = "image"
"""What joins for this kind reads pictures of pages (`rag_assets.parsing.reader.ScannedDocuments`), not files."""
_EXTRAS = MappingProxyType(
    {
        **dict.fromkeys(("email", "epub", SCANNED, "odp", "ods", "odt", "outlook", "rtf"), "citelock[formats]"),
        **dict.fromkeys(("mdx", "rst"), "citelock[sites]"),
    }
)


def missing_extra(kind: str) -> str | None:
    """Return the extra to install before files of a kind can be read; None if they can, or no plug-in reads them."""
    return None if kind in loaded(GROUP) else _EXTRAS.get(kind)


def lack(kind: str) -> str:
    """Return why files of a kind are not read."""
    if (extra := missing_extra(kind)) is None:
        return f"files of kind {kind!r} are not read"
    return f"files of this kind are read with {extra}; install it on the machine that builds"


def brought(kind: str) -> Any:
    """Return a plug-in's reader for a kind: given the content, an empty `Composed` and `PagesDone`, it returns a
    FileText. Raises FileError: the plug-in is not installed."""
    if kind not in loaded(GROUP):
        raise FileError(lack(kind))
    return loaded(GROUP)[kind].load()


def is_installed_now(reason: str) -> bool:
    """Return whether a file was left out for want of a plug-in that is now installed."""
    return any(extra in reason and kind in loaded(GROUP) for kind, extra in _EXTRAS.items())


DEEPEST = 3
"""Files within files: an e-mail in an archive in an archive is read, what hangs on it is not."""
_LEVELS = 6

ReadFile = Callable[[str, bytes, int], FileText]
"""Given name, content, and how deep the file lies; raises FileError and ImportError."""


@dataclass
class Composed:
    """A body that is put together."""

    read: ReadFile
    budget: Budget
    depth: int
    blocks: list[Block] = field(default_factory=list)
    ledger: Counter[tuple[str, str]] = field(default_factory=Counter)
    cut: str | None = None
    _chars: int = 0
    _groups: int = 0

    @property
    def is_full(self) -> bool:
        """Whether further text would be cut."""
        return self.cut is not None

    def heading(self, text: str, level: int) -> None:
        """Begin a section."""
        if words := clean(text):
            self._take([Block("heading", words, level=min(level, _LEVELS))])

    def note(self, text: str) -> None:
        """Append words of ours on missing parts, which nothing may quote."""
        self._take([Block("paragraph", clean(f"{text}{OMISSION}"))])

    def content(self, content: Content, below: int = 0) -> None:
        """Append blocks; their headings lie below a level, and pages of a part are none of the whole."""
        placed = []
        for block in content.blocks:
            level = min(block.level + below, _LEVELS) if block.level else 0
            group = block.group + self._groups if block.group else 0
            anchors = tuple(name for name in block.anchors if not (below and name.startswith("page=")))
            placed.append(block._replace(group=group, level=level, anchors=anchors, page=0, breaks=()))
        self._take(placed)
        self._groups += max((block.group for block in content.blocks), default=0)
        self.ledger += content.ledger
        self.cut = self.cut or content.cut

    def body(self, text: FileText, below: int = 0) -> None:
        """Append a body of any format. Raises FileError: it cannot be read."""
        try:
            content = DirectReader(self.budget).content(text.body, text.body_format)
        except PageError as error:
            raise FileError(str(error)) from None
        self.content(content, below)

    def file(self, name: str, content: bytes, level: int) -> None:
        """Append a file as a section under its name. Raises FileError: it cannot be read, and nothing of it is here."""
        if self.depth >= DEEPEST:
            raise FileError(f"it lies more than {DEEPEST} files deep")
        if not content.strip():
            raise FileError("it is empty")
        try:
            text = self.read(name, content, self.depth + 1)
        except ImportError as error:
            raise FileError(needs(error)) from None
        if not text.body.strip():
            raise FileError("it has no text")
        before = len(self.blocks)
        self.heading(name, level)
        try:
            self.body(text, level)
        except FileError:
            del self.blocks[before:]
            raise

    def hidden(self, what: str, how_many: int) -> None:
        """Count parts left out because they are no text of the file's own."""
        self.ledger[what, "hidden"] += how_many

    def lost(self, what: str, how_many: int = 1) -> None:
        """Count losses."""
        self.ledger[what, "lost"] += how_many

    def text(self) -> FileText:
        """Return the body."""
        if not self.blocks:
            return FileText("", "blocks")
        return FileText(noted(blocks_body(Content(self.blocks, self.ledger)), self.cut), "blocks")

    def _take(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._chars += len(block.text)
            if self._chars > self.budget.text_chars:
                self.cut = self.cut or self.budget.reason("text_chars")
            if self.cut is not None:
                return
            self.blocks.append(block)
