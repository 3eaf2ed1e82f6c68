"""One pyarrow schema with a version per artifact table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

VERSION_KEY = b"citelock.version"
TABLE_KEY = b"citelock.table"

Column = tuple[str, pa.DataType, str]
"""Name, type, and what stands in it."""

_STRING, _INT, _STRINGS = pa.string(), pa.int32(), pa.list_(pa.string())
_TIME = pa.timestamp("ms", tz="UTC")
_PLACES = pa.list_(
    pa.struct(
        [
            ("chunk_id", pa.string()),
            ("space", pa.string()),
            ("title", pa.string()),
            ("heading", pa.string()),  # the heading path in one line
            ("url", pa.string()),  # with #anchor
            ("labels", _STRINGS),
            ("readers", pa.string()),  # readers of the place
            ("source", pa.string()),
            ("kind", pa.string()),
            ("section_id", pa.string()),
        ]
    )
)
_LINKS = pa.list_(
    pa.struct([(name, pa.string()) for name in ("text", "kind", "target", "space", "anchor")])  # kind: page, file, …
)
_PAGE_LINKS = pa.list_(pa.struct([("page_id", pa.string()), ("url", pa.string())]))
_ANCHORS = pa.list_(pa.struct([("name", pa.string()), ("rule", pa.string())]))
_ORIGINAL = pa.struct(
    [
        ("sha256", pa.string()),
        ("media_type", pa.string()),
        ("bytes", pa.int64()),
        ("page_count", pa.int32()),
        ("received_sha256", pa.string()),  # of the file as it came, where OCR made this one from it; null: this is it
    ]
)
_BREAKS = pa.list_(pa.list_(pa.int32()))
_BLOCKS = pa.list_(
    pa.struct(
        [
            ("kind", pa.string()),
            ("start", pa.int32()),
            ("end", pa.int32()),
            ("page", pa.int32()),  # of a paged file, from 1; 0: not paged
            ("breaks", _BREAKS),  # [offset in the text, page] where a later page begins inside it
            ("confidence", pa.int32()),  # of what OCR read, 0 to 100; null: no OCR
        ]
    )
)


@dataclass(frozen=True)
class TableSchema:
    """The columns of one artifact table and the version of their meaning."""

    name: str
    version: int
    rebuild: str
    columns: pa.Schema
    descriptions: Mapping[str, str]  # of each column; not part of any file
    optional: frozenset[str] = frozenset()  # columns that a row may lack: null then

    @property
    def arrow(self) -> pa.Schema:
        """The columns with table name and version in the schema's metadata."""
        return self.columns.with_metadata({TABLE_KEY: self.name.encode(), VERSION_KEY: str(self.version).encode()})

    def empty(self) -> pa.Table:
        """Return a table of these columns without rows."""
        return self.arrow.empty_table()

    def table(self, rows: Sequence[Mapping[str, object]]) -> pa.Table:
        """Return rows as a table of these columns; an extra key, or a missing one that is not optional, is an error."""
        if rows:
            have, want = set(rows[0]), set(self.columns.names)
            missing = want - have - self.optional
            if missing or have - want:
                raise ValueError(
                    f"table {self.name!r}: missing columns {sorted(missing)}, extra columns {sorted(have - want)}"
                )
        return pa.Table.from_pylist(rows, schema=self.arrow)


def table_schema(name: str, version: int, columns: Sequence[Column], optional: Sequence[Column] = ()) -> TableSchema:
    """Return a table's schema with a description for each column; all tables are rebuilt by `citelock build`."""
    every = [*columns, *optional]
    types = pa.schema([(column, kind) for column, kind, _ in every])
    described = {column: told for column, _, told in every}
    return TableSchema(name, version, "citelock build", types, described, frozenset(column for column, *_ in optional))


PAGES = table_schema(
    "pages",
    4,
    [
        ("source", _STRING, "key of the source in the configuration"),
        ("tenant", _STRING, "tenant that the source belongs to"),
        ("page_id", _STRING, "id of the page, unique within the tenant"),
        ("version", _INT, "number of the page's version, as the source counts"),
        ("space", _STRING, "key of the space"),
        ("title", _STRING, "title of the page"),
        ("url", _STRING, "address of the page, without an anchor"),
        ("status", _STRING, "current or archived"),
        ("updated_at", _TIME, "when the version was made"),
        ("labels", _STRINGS, "labels of the page"),
        ("ancestors", _STRINGS, "ids of the pages above it in the tree, root first"),
        ("ancestor_titles", _STRINGS, "titles of the pages above it, root first"),
        ("position", _INT, "place among its parent's children, where someone arranged them; null: by title"),
        ("readers", _STRING, "reader class: who may read the page"),
        ("body", _STRING, "raw body as the source has it"),
        ("body_format", _STRING, "storage, markdown, html, text or blocks"),
        ("anchor_flavor", _STRING, "how its links name headings: cloud, datacenter, markdown or html"),
        ("content_hash", _STRING, "hash of title, body, format, flavor and original: what sections depend on"),
        ("original", _ORIGINAL, "the file that the body was read from, where it is kept; null: the body is all"),
    ],
    optional=[
        ("lang", _STRING, "language of the text, ISO 639-1; null: not told"),
        ("source_file", _STRING, "name of the file below the folder, archive or working tree; null: no file"),
        ("slug", _STRING, "short name of a document in its address, as its front matter or its site says"),
        ("category", _STRING, "category of a document, as its front matter or its site's navigation says"),
        ("chapter", _STRING, "number of the chapter in its book, such as 3 or 3.2; null: no book"),
        ("author", _STRING, "name of who made the version; null: not told"),
        ("space_name", _STRING, "name of the space; null: not told"),
    ],
)

SECTIONS = table_schema(
    "sections",
    5,
    [
        ("section_id", _STRING, "{page_id}:{version}:s{order}"),
        ("page_id", _STRING, "page of the section"),
        ("version", _INT, "version of the page"),
        ("order", _INT, "place in the page, from 0"),
        ("level", pa.int8(), "level of its heading; 0: text above the first heading"),
        ("heading", _STRING, "text of its heading"),
        ("heading_path", _STRINGS, "headings above it and its own, page title first"),
        ("anchor", _STRING, "anchor of the heading in the page's address"),
        ("anchor_rule", _STRING, "rule by which the anchor was made"),
        ("text", _STRING, "Markdown without the heading line"),
        ("blocks", _BLOCKS, "atoms of the text in order: paragraph, heading, code, table (a row), list (an item)"),
        ("content_types", _STRINGS, "kinds of content in the text"),
        ("is_boilerplate", pa.bool_(), "whether the text repeats over the pages of the source"),
        ("content_hash", _STRING, "of the page it was made from, and of what that shows of other pages"),
        ("also_readers", _STRING, "who must be able to read it beside the page; everyone: the page's own text"),
        ("included_from", _STRING, "page id of the text where it is another's"),
        ("links", _LINKS, "where the links of the page's own text lead"),
        ("anchors", _ANCHORS, "further anchors that links reach the page's own text by, beside `anchor`"),
    ],
)

GROUP_MEMBERS = table_schema(
    "group_members",
    1,
    [
        ("group", _STRING, "name of the group"),
        ("user", _STRING, "user name, account id or key: a row for each; null: the group was asked for"),
    ],
)

MACRO_LEDGER = table_schema(
    "macro_ledger",
    1,
    [
        ("page_id", _STRING, "page with the macro"),
        ("version", _INT, "version of the page"),
        ("macro", _STRING, "name of the macro"),
        ("outcome", _STRING, "rendered, resolved, unresolved, navigation, hidden or lost"),
        ("count", _INT, "how often"),
        ("content_hash", _STRING, "of the page it was read from"),
    ],
)

_CHUNK_COLUMNS: list[Column] = [
    ("chunk_id", _STRING, "{page_id}:{version}:{chunk_idx}"),
    ("page_id", _STRING, "page of the chunk"),
    ("version", _INT, "version of the page"),
    ("chunk_idx", _INT, "place in the page, from 0; text with readers of its own from 1 << 30 on"),
    ("section_id", _STRING, "section that the chunk was cut from"),
    ("space", _STRING, "key of the space"),
    ("title", _STRING, "title of the page"),
    ("heading_path", _STRINGS, "headings above the text, page title first"),
    ("anchor", _STRING, "anchor of its heading"),
    ("url", _STRING, "address of the page with #anchor"),
    ("text", _STRING, "citable text: section.text[start:end]"),
    ("start", _INT, "first character in the section's text"),
    ("end", _INT, "character after the last in the section's text"),
    ("context_before", _STRING, "up to the stride of neighbouring text of the section; never citable"),
    ("context_after", _STRING, "the same after the chunk; never citable"),
    ("token_count", _INT, "tokens of the text, by the embedding model's tokenizer"),
    ("content_type", _STRING, "paragraph, table, code or list"),
    ("labels", _STRINGS, "labels of the page"),
    ("readers", _STRING, "reader class: who may read the text"),
    ("is_boilerplate", pa.bool_(), "whether the text repeats over the pages of the source"),
    ("updated_at", _TIME, "when the page's version was made"),
    ("text_hash", _STRING, "hash of the text"),
    (
        "structure",
        _STRING,
        "JSON: units of the text, header of a table and introduction of a list that it begins inside",
    ),
    ("parent_id", _STRING, "page above the chunk's own in the tree; empty at its top"),
]
_DOCUMENT_COLUMNS: list[Column] = [
    ("lang", _STRING, "language of the text, ISO 639-1; null: not told"),
    ("passage_id", _STRING, "place in its book, such as ch3-sec2-p45; null: no book"),
    ("chapter", _STRING, "number and title of the chapter in its book; null: no book"),
    ("section", _STRING, "number and title of its page below the chapter's own; null: the chapter's own, or no book"),
    ("page_order", _INT, "place of its page in the source's reading order, from 1; null: the source has none"),
    ("source_file", _STRING, "name of the file that its page was read from; null: no file"),
    ("slug", _STRING, "short name of its document, as `pages` has it; null: none"),
    ("category", _STRING, "category of its document, as `pages` has it; null: none"),
]
_PREFIX_COLUMNS: list[Column] = [
    ("prefix", _STRING, "prepended to what is embedded; never shown, never quotable"),
    ("lexical_prefix", _STRING, "the same for the lexical index: title, headings, definitions, weighted"),
]
_PLACE_COLUMNS: list[Column] = [
    ("source", _STRING, "key of the source in the configuration"),
    ("kind", _STRING, "page, comments, attachment or document"),
    ("places", _PLACES, "where the text stands as well: chunks dropped as duplicates of this one"),
]

PASSAGE_COLUMNS = (
    *("chunk_id", "page_id", "version", "chunk_idx", "space", "title", "heading_path", "anchor", "url", "text"),
    *("structure", "kind"),
)
"""What queries over sets read of a chunk."""

CHUNKS = table_schema(
    "chunks",
    7,
    [
        *_CHUNK_COLUMNS,
        ("content_hash", _STRING, "of its section"),
        ("page_readers", _STRING, "of the page; `readers` are fewer where the text is another page's too"),
        ("included_from", _STRING, "page id of the text where it is another's"),
    ],
    optional=_DOCUMENT_COLUMNS,
)

SELECTED_CHUNKS = table_schema("selected_chunks", 6, [*_CHUNK_COLUMNS, *_PLACE_COLUMNS], optional=_DOCUMENT_COLUMNS)

DEDUP_MAP = table_schema(
    "dedup_map",
    1,
    [
        ("dropped_id", _STRING, "chunk that is not indexed"),
        ("kept_id", _STRING, "chunk that is indexed in its place"),
        ("jaccard", pa.float32(), "similarity of their word triples, 0 to 1"),
        ("scope", _STRING, "within_page, across_versions or across_spaces"),
    ],
)

CONTEXTS = table_schema(
    "contexts",
    4,
    [
        ("chunk_id", _STRING, "chunk that the prefix belongs to"),
        *_PREFIX_COLUMNS,
        ("contextualized", _STRING, "prefix above text: what is embedded"),
        ("level", _STRING, "llm, metadata, none or skipped"),
        ("quality", pa.float32(), "of what a model wrote, 0 to 1; null where none did"),
        ("issues", _STRINGS, "what its quality suffers from, or why no model wrote it"),
        ("tokens_in", _INT, "tokens that the model read"),
        ("tokens_out", _INT, "tokens that the model wrote"),
        ("document_type", _STRING, "wiki page, or the kind of file, as the model is told"),
        ("generation_timestamp", _TIME, "when the model wrote; null where none did"),
        ("llm_provider", _STRING, "ollama or openai; null where no model wrote"),
        ("llm_model", _STRING, "name of the model that wrote"),
        ("token_count", _INT, "tokens of `contextualized`, by the embedding model's tokenizer"),
        ("length_score", pa.float32(), "has 50 to 100 words: one of the four parts of `quality`, 0 to 1"),
        ("relevance_score", pa.float32(), "has the chunk's key terms, 0 to 1"),
        ("coherence_score", pa.float32(), "is made of whole sentences, 0 to 1"),
        ("specificity_score", pa.float32(), "has no generic phrases, 0 to 1"),
    ],
)

GENERATION_CHUNKS = table_schema(
    "generation_chunks",
    7,
    [
        *_CHUNK_COLUMNS,
        *_PLACE_COLUMNS,
        *_PREFIX_COLUMNS,
        ("vector_keys", _STRINGS, "content addresses of the embedded text, or of each of its windows"),
        ("shard", _STRING, "name of the dense shard that holds it"),
    ],
    optional=_DOCUMENT_COLUMNS,
)

PAGE_READERS = table_schema(
    "page_readers",
    1,
    [
        ("page_id", _STRING, "page of the chunks"),
        ("classes", _STRINGS, "reader classes of its chunks, dropped ones too"),
        ("content", _STRING, "digest of who may read which of its texts"),
    ],
)

PAGE_FACTS = table_schema(
    "page_facts",
    1,
    [
        ("page_id", _STRING, "page of the generation, with a chunk or without: a row for each, ascending"),
        ("version", _INT, "version of the page"),
        ("title", _STRING, "title of the page"),
        ("space", _STRING, "key of the space"),
        ("space_name", _STRING, "name of the space; its key where that is not known"),
        ("url", _STRING, "address of the page, without an anchor"),
        ("status", _STRING, "current or archived"),
        ("updated_at", _TIME, "when the version was made; null: not told"),
        ("labels", _STRINGS, "labels of the page"),
        ("ancestors", _STRINGS, "ids of the pages above it in the tree, root first"),
        ("ancestor_titles", _STRINGS, "titles of the pages above it, root first"),
        ("author", _STRING, "name of who made the version; null: not told"),
        ("source", _STRING, "key of the source in the configuration"),
        ("kind", _STRING, "page, comments, attachment or document"),
        ("category", _STRING, "category of a document; null: none"),
        ("lang", _STRING, "language of the text, ISO 639-1; null: not known"),
        ("words", _INT, "words of those of its texts that all readers of the page may read"),
        ("links", _PAGE_LINKS, "where its own text links to, each once: page of the tenant, address as it is written"),
        ("readers", _STRING, "reader class: who may read the page"),
    ],
    optional=[("includes", _STRINGS, "ids of other pages whose text stands on it; null: nobody has noted them")],
)

DUPLICATES = table_schema(
    "duplicates",
    1,
    [
        *[column for column in _CHUNK_COLUMNS if column[0] in PASSAGE_COLUMNS],
        ("source", _STRING, "key of the source in the configuration"),
        ("kind", _STRING, "page, comments, attachment or document"),
        ("readers", _STRING, "reader class: who may read the text"),
    ],
)

ORIGINALS = table_schema(
    "originals",
    1,
    [
        ("page_id", _STRING, "page that was read from the file"),
        ("sha256", _STRING, "digest of the file, and its name in the tenant's folder `originals`"),
        ("media_type", _STRING, "such as application/pdf"),
        ("bytes", pa.int64(), "size of the file"),
        ("page_count", _INT, "pages of the file; null: not paged, or not known"),
    ],
    optional=[
        ("received_sha256", _STRING, "digest of the file as it came, where this was made from it; null: this is it")
    ],
)

TABLES: Mapping[str, TableSchema] = MappingProxyType(
    {
        t.name: t
        for t in (
            PAGES,
            GROUP_MEMBERS,
            SECTIONS,
            MACRO_LEDGER,
            CHUNKS,
            DEDUP_MAP,
            SELECTED_CHUNKS,
            CONTEXTS,
            GENERATION_CHUNKS,
            PAGE_READERS,
            PAGE_FACTS,
            DUPLICATES,
            ORIGINALS,
        )
    }
)
