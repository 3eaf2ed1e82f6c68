"""What tells a chunk where it comes from when no model writes it: the prefixes of the dense and of the lexical index.

Belongs here: which parts of the place count, and how much; the names of columns and the sentence above, which a passage
that begins inside a table lacks; the definitions that enclose a passage of code. Does not belong here: which chunks get
a prefix, or where it is stored; what a term is; what a reader sees of a table (`rag_serving.text.structure`).

For the lexical index a part that counts twice stands there twice: BM25 over fields is BM25 over their weighted term
counts (Robertson, Zaragoza and Taylor, "Simple BM25 Extension to Multiple Weighted Fields", CIKM 2004). The embedding
model reads no more than some 250 tokens, and nothing is won by telling it the same thing thrice: it gets title and
headings once.

A table that is longer than a passage would without its head be found by its first rows alone: only they stand below
"Three Months Ended" and "in millions". The passage itself stays to the letter.

Indentation is what nearly all code has in common. Above a line, the definitions that enclose it are those with less and
less indentation; a definition of the outermost level also speaks for what follows it there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pyarrow as pa

from rag_serving.text.structure import columns_of, decode

MAX_PREFIX_CHARS = 160
"""A longer path loses its middle: an embedding model reads some 250 tokens, and the text must have them."""


def under_prefixes(prefixes: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return each text below its prefix: what an index sees."""
    return [f"{prefix}\n{text}" if prefix else text for prefix, text in zip(prefixes, texts, strict=True)]


def embedded_texts(chunks: pa.Table) -> list[str]:
    """Return what is embedded for each row of GENERATION_CHUNKS: its prefix above its text."""
    return under_prefixes(chunks["prefix"].to_pylist(), chunks["text"].to_pylist())


def metadata_prefixes(chunks: pa.Table) -> list[str]:
    """Return what is embedded above the text of each chunk: chapter, page title and headings, and the head of the table
    that it begins inside. `chunks` needs title, heading_path, chapter and structure."""
    columns = (chunks[name].to_pylist() for name in ("title", "heading_path", "chapter", "structure"))
    return [
        "\n".join(filter(None, (metadata_prefix(title, path or (), chapter), shortened(table_head(structure)))))
        for title, path, chapter, structure in zip(*columns, strict=True)
    ]


def metadata_prefix(title: str, heading_path: Sequence[str], chapter: str | None = None) -> str:
    """Chapter, page title and headings, each once: `Deploy guide › Rolling back`; empty where there are none.

    `chapter`: of a book, such as `Chapter 3: Common Concepts`; its number says nothing.
    """
    names: list[str] = []
    for name in ((chapter or "").partition(": ")[2], title, *heading_path):
        clean = " ".join(name.split())
        if clean and clean not in names:
            names.append(clean)
    while len(names) > 2 and len(" › ".join(names)) > MAX_PREFIX_CHARS:
        del names[1]
    return " › ".join(names)[:MAX_PREFIX_CHARS].strip()


TITLE, HEADINGS, DEFINITIONS = 3, 2, 2
_COLUMNS = ("section_id", "readers", "title", "heading_path", "text", "structure")


def lexical_prefixes(chunks: pa.Table) -> list[str]:
    """Return what stands above the text of each chunk for the lexical index.

    `chunks` needs section_id, readers, title, heading_path, text and structure; the chunks of a section in their order.
    What encloses a chunk is told only by chunks before it that have the same readers.
    """
    columns = (chunks[name].to_pylist() for name in _COLUMNS)
    read: defaultdict[tuple[str, str], Enclosing] = defaultdict(Enclosing)
    return [
        lexical_prefix(title, path or (), read[section, readers].definitions(text), table_head(structure))
        for section, readers, title, path, text, structure in zip(*columns, strict=True)
    ]


def lexical_prefix(title: str, heading_path: Sequence[str], definitions: Iterable[str] = (), head: str = "") -> str:
    """Title, headings, definitions and the head of a table, a line each, as often as they count."""
    headings = [heading for heading in heading_path if heading != title]
    lines = [*[title] * TITLE, *headings * HEADINGS, *tuple(definitions) * DEFINITIONS, head]
    return "\n".join(line for line in lines if line.strip())


DEPTH = 3
"""Innermost definitions that are told."""
MAX_LINE_CHARS = 200

_FENCE = re.compile(r"\s*(?:```|~~~)")
_MODIFIERS = (
    r"(?:(?:pub(?:\([^)]*\))?|public|private|protected|internal|static|final|abstract|sealed|export|default|async|unsafe"
    r"|extern|inline|virtual|const|constexpr|override|open|data|partial|declare|template\s*<[^>]*>|@\w+)\s+)*"
)
_KEYWORDS = (
    r"(?:class|struct|enum|union|trait|impl|interface|mod|module|namespace|def|fn|func|fun|function|object|record|type"
    r"|protocol|extension|macro_rules!)"
)
_NO_TYPES = (
    r"(?:if|for|while|switch|return|else|do|catch|case|new|throw|delete|using|typedef|goto|sizeof|await|assert|print"
    r"|not|and|or|in|with|match|let|var|val|use|import|from|elif|yield|raise|except)"
)
# `static Pool *open(int size)`: types, a name, an opened parenthesis, and no end of a statement.
_SIGNATURE = re.compile(rf"\s*(?!{_NO_TYPES}\b)(?:[\w:<>,&*\[\]~@?]+[ \t]+)+[*&]?[\w:~]+\([^;.]*$")
_DEFINITION = re.compile(rf"\s*{_MODIFIERS}{_KEYWORDS}\b.*[\w(){{}}\[\]<>:;,=]\s*$")


class Enclosing:
    """Reads the text of a section part by part, and tells what encloses the next part."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []  # indentation and line, outermost first

    def definitions(self, text: str) -> tuple[str, ...]:
        """Return the lines of the definitions that enclose the beginning of `text`, outermost first; then it is
        read."""
        first = next((line for line in text.split("\n") if line.strip()), "")
        depth = _indentation(first)
        definitions = [line for indentation, line in self._open if indentation < depth or indentation == 0]
        enclosing = () if _FENCE.match(first) else tuple(definitions[: 1 if depth == 0 else None][-DEPTH:])
        for line in text.split("\n"):
            self._read(line)
        return enclosing

    def _read(self, line: str) -> None:
        if _FENCE.match(line):
            self._open.clear()
        elif _DEFINITION.match(line) or _SIGNATURE.match(line):
            indentation = _indentation(line)
            while self._open and self._open[-1][0] >= indentation:
                self._open.pop()
            self._open.append((indentation, line.strip()[:MAX_LINE_CHARS]))


def _indentation(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


MAX_CHARS = 160
"""Of what is embedded above a passage: an embedding model reads some 250 tokens, and the rows must have them."""


def table_head(structure: str) -> str:
    """Return the sentence above a table and the names of its columns, each once, for a passage that begins inside it;
    empty for any other.

    `structure`: as `Structure.encode` wrote it; empty where no ingest has read the passage.
    """
    if not structure:
        return ""
    found = decode(structure)
    if not found.table_header:
        return ""
    names = dict.fromkeys(name for name in columns_of(found.table_header) if name)
    return " ".join(part for part in (found.introduction, ", ".join(names)) if part)


def shortened(head: str) -> str:
    """Return what of it is embedded: its end is nearest to the rows."""
    return head if len(head) <= MAX_CHARS else head[-MAX_CHARS:].partition(" ")[2]
