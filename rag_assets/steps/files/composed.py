"""Files that contain others: one body of several parts, each under its heading.

Belongs here: parts put one after the other, a file inside a file as a section under its name, limits of depth and size.
Does not belong here: their containers (archives in `file_text`, and readers of plug-ins).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rag_assets.steps.files.records import FileError, FileText, needs
from rag_assets.steps.formats.blocks import Block, Content, blocks_body, clean
from rag_assets.steps.formats.budget import Budget, noted
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.sections.reading import DirectReader
from rag_serving.text.normalization import OMISSION

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

    def paragraph(self, text: str) -> None:
        """Append a paragraph."""
        if words := clean(text):
            self._take([Block("paragraph", words)])

    def note(self, text: str) -> None:
        """Append words of ours on missing parts, which nothing may quote."""
        self.paragraph(f"{text}{OMISSION}")

    def content(self, content: Content, below: int = 0) -> None:
        """Append blocks; their headings lie below a level."""
        self._take([self._placed(block, below) for block in content.blocks])
        self._groups += max((block.group for block in content.blocks), default=0)
        self.ledger += content.ledger
        self.cut = self.cut or content.cut

    def body(self, text: FileText, below: int = 0) -> None:
        """Append a body of any format.

        Raises:
            FileError: it cannot be read.
        """
        try:
            content = DirectReader(self.budget).content(text.body, text.body_format)
        except PageError as error:
            raise FileError(str(error)) from None
        self.content(content, below)

    def file(self, name: str, content: bytes, level: int) -> None:
        """Append a file as a section under its name.

        Raises:
            FileError: it cannot be read; nothing of it is here then.
        """
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
        body = blocks_body(Content(self.blocks, self.ledger, None)) if self.blocks else ""
        return FileText(noted(body, self.cut) if self.cut and body else body, "blocks")

    def _take(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._chars += len(block.text)
            if self._chars > self.budget.text_chars:
                self.cut = self.cut or self.budget.reason("text_chars")
            if self.cut is not None:
                return
            self.blocks.append(block)

    def _placed(self, block: Block, below: int) -> Block:
        """Return a block as a part of a larger body: pages of a part are none of the whole."""
        anchors = (
            tuple(anchor for anchor in block.anchors if not anchor.startswith("page=")) if below else block.anchors
        )
        level = min(block.level + below, _LEVELS) if block.level else 0
        group = block.group + self._groups if block.group else 0
        return block._replace(group=group, level=level, anchors=anchors, page=0, breaks=())
