"""The kinds of sources a configuration may name, one model each.

Belongs here: keys, types, defaults, and their one-line descriptions. Does not belong here: reading a source.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rag_serving.config.cron import check_cron

SLUG = r"^[a-z0-9][a-z0-9_-]{0,62}$"


class Section(BaseModel):
    """A group of keys; unknown ones are errors.

    The line under a key is its description in docs/configuration.md, whose maker reads it from the source: for pydantic
    to do so would take every command 40 ms. A section is built when the configuration is, not once more before.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class NoAuth(Section):
    """No credentials."""

    kind: Literal["none"] = "none"


class BasicAuth(Section):
    """User name (Cloud: e-mail address) and API token or password."""

    kind: Literal["basic"]
    user_env: str = "CONFLUENCE_USER"
    """Environment variable with the user name."""
    token_env: str = "CONFLUENCE_TOKEN"
    """Environment variable with the API token or password."""


class BearerAuth(Section):
    """A personal access token."""

    kind: Literal["bearer"]
    token_env: str = "CONFLUENCE_TOKEN"
    """Environment variable with the token."""


Auth = Annotated[Union[NoAuth, BasicAuth, BearerAuth], Field(discriminator="kind")]
Readers = Union[Literal["from_source", "everyone"], list[str]]
ProfileName = Literal["wiki", "book", "docs"]


class SourceBase(Section):
    """What every kind of source has."""

    tenant: str = Field(pattern=SLUG)
    """The tenant that the pages belong to."""
    readers: Readers = "from_source"
    """Who may read the space itself: from_source (fail closed), everyone, or a list of group:NAME and user:NAME."""
    schedule: str | None = None
    """Cron expression of the sync, five fields in UTC; null: only by hand."""
    stale_after_hours: float | None = Field(None, gt=0)
    """Hours without a complete sync after which the source is overdue; null: as its schedule and `monitoring` say."""
    profile: ProfileName | None = None
    """The set of settings (`profiles`) for this kind of text; null: book for markdown_book, docs for docs_folder, else
    wiki."""
    id_prefix: str = ""
    """Put before page ids where two sites of a tenant repeat them."""
    resolve_lists: bool = False
    """Index what lists of children and page properties reports show, too, made from the source's own pages. Each reader
    finds the listed pages that he may read."""

    @field_validator("schedule")
    @classmethod
    def _ticks(cls, value: str | None) -> str | None:
        return None if value is None else check_cron(value)

    @field_validator("readers")
    @classmethod
    def _principals(cls, value: Readers) -> Readers:
        if isinstance(value, list):
            for principal in value:
                if not principal.startswith(("group:", "user:")):
                    raise ValueError(f"reader {principal!r} must start with 'group:' or 'user:'")
                if not principal.isprintable():
                    raise ValueError(f"reader {principal!r} has a character that no name has, such as a line's end")
        return value


class AttachmentSource(SourceBase):
    """What kinds of sources have that hold attached files."""

    attachments: Literal["none", "text", "all"] = "none"
    """Files attached to pages: none, text (plain text, Markdown, tables, source code, HTML), or all (PDF, Office and
    OpenDocument files, EPUB, e-mails and zip, too; PDF needs citelock[pdf]). Files of other types are recorded as
    excluded."""
    max_attachment_bytes: int = Field(10_000_000, ge=1)
    """A larger file is recorded as excluded, not read."""


class ConfluenceDump(AttachmentSource):
    """A folder or zip of REST v1 page envelopes, one JSON file a page; files of a page in `attachments/<page id>/`."""

    kind: Literal["confluence_dump"]
    path: Path
    """The folder or zip file, relative to the working directory."""
    flavor: Literal["auto", "cloud", "datacenter"] = "auto"
    """How the site makes heading anchors; auto reads it from the page links."""


class ConfluenceExport(AttachmentSource):
    """A space export as a space's administrator downloads it, in XML or HTML; `readers: from_source` reads the
    permissions in XML. HTML tells no restrictions, versions, labels and comments: prefer XML."""

    kind: Literal["confluence_export"]
    path: Path
    """The zip file, relative to the working directory."""
    base_url: str
    """The site that links lead to, such as https://acme.atlassian.net/wiki: an export does not name it."""
    space: str | None = None
    """Key of the space; needed where the export holds several, or does not tell it."""
    flavor: Literal["auto", "cloud", "datacenter"] = "auto"
    """How the site makes heading anchors; auto reads it from the export and from the address."""
    comments: bool = False
    """Index the comments on each page, as a text beside it; in XML only."""
    unrestricted: bool = False
    """None of the pages in an HTML export is restricted. Otherwise they are hidden, because HTML does not tell."""


class Confluence(AttachmentSource):
    """A live Confluence site over REST."""

    kind: Literal["confluence"]
    base_url: str
    """The site with its context path, such as https://acme.atlassian.net/wiki."""
    space: str = Field(min_length=1)
    """Key of the space."""
    flavor: Literal["auto", "cloud", "datacenter"] = "auto"
    """cloud or datacenter; auto reads it from the address."""
    auth: Auth = NoAuth()
    """How to sign in."""
    blog_posts: bool = False
    """Index blog posts, too."""
    archived: bool = False
    """Index archived pages, too."""
    listing_every_s: float = Field(0, ge=0)
    """Seconds for which a complete listing of the space serves; 0: every sync lists it, so that no restriction is older
    than the sync. With more, the syncs in between take only what CQL tells (edits, new and deleted pages), and who may
    read a page, moves and labels are up to so many seconds late. docs/operations.md has what either costs."""
    overlap_hours: float = Field(24, ge=0, le=24 * 31)
    """How far before the last sync CQL is asked again: what search learnt late, and summer time, are made good."""
    batch_size: int = Field(50, ge=1, le=200)
    """Pages fetched at once."""
    timeout_s: float = Field(30, gt=0)
    """Seconds a request may be silent."""
    deadline_s: float = Field(120, gt=0)
    """Seconds a whole answer may take, however steadily it drips."""
    max_response_bytes: int = Field(256 * 1024**2, ge=1)
    """A longer answer, unpacked, is not read to its end; it counts as refused."""
    download_hosts: list[str] = []
    """Hosts beside that of base_url, as NAME or NAME:PORT, that the site may redirect to; on Atlassian's cloud
    api.media.atlassian.com is one. A name among them is asked at a private address only where base_url is one, too."""
    max_retries: int = Field(5, ge=0, le=20)
    """Tries after the first for a throttled or failing request."""
    max_requests_per_s: float = Field(10, gt=0)
    """Requests to the site in a second, by all sources of one process together."""
    comments: bool = False
    """Index the comments on each page, as a text beside it. Search lists those of the space, 200 a request; only pages
    whose comments changed are asked. Attachments, too, cost a request for 200 of them and one for each changed file."""
    groups: bool = False
    """Read the members of the groups that may read pages, for `serving.groups: synced`; a group whose members the user
    may not see has none. Members of groups inside of groups count as far as the site lists them."""
    max_deleted_share: float = Field(0.2, gt=0, le=1)
    """A larger share of pages gone at once stops the sync and asks a person."""


class ConfluenceMcp(SourceBase):
    """A space by way of a Confluence MCP server, started here (`command`) or reached over HTTP (`url`). The tools have
    the names of sooperset/mcp-atlassian unless set otherwise. Needs citelock[mcp]."""

    kind: Literal["confluence_mcp"]
    space: str = Field(pattern=r"^[^\"\\\s]+$")
    """Key of the space. The server's own filter is not relied on: a page is taken only where the list or the page names
    this space and neither names another; what was left out is recorded with its reason."""
    command: list[str] = []
    """The server's command with its arguments, spoken to over standard input and output."""
    env: list[str] = []
    """Environment variables that the command gets, by name; it gets no others but PATH, HOME and the like."""
    url: str | None = None
    """Address of a server that speaks streamable HTTP, such as http://127.0.0.1:8000/mcp."""
    token_env: str | None = None
    """Environment variable with the bearer token for `url`."""
    search_tool: str = "confluence_search"
    """Lists pages by CQL where there is no tree tool: arguments query or cql, and limit."""
    page_tool: str = "confluence_get_page"
    """Gives one page: arguments page_id or id."""
    tree_tool: str = "confluence_get_space_page_tree"
    """Lists all pages of a space with their parents: arguments space_key and limit."""
    restrictions_tool: str = "confluence_get_page_restrictions"
    """Tells who may read one page: arguments page_id or id."""
    unrestricted: bool = False
    """Pages that come without restrictions have none. Otherwise they are hidden."""
    base_url: str | None = None
    """The site that links lead to, where the server's answers have no addresses."""
    flavor: Literal["auto", "cloud", "datacenter"] = "auto"
    """How the site makes heading anchors; auto reads it from the page links."""
    timeout_s: float = Field(60, gt=0)
    """Seconds an answer may take."""
    max_deleted_share: float = Field(0.2, gt=0, le=1)
    """A larger share of pages gone at once stops the sync and asks a person."""

    @model_validator(mode="after")
    def _one_way(self) -> ConfluenceMcp:
        if bool(self.command) == bool(self.url):
            raise ValueError("a confluence_mcp source needs either a command or a url")
        return self


class Files(SourceBase):
    """Files of a folder, or documents that people upload: Markdown, HTML, plain text, tables, source code, PDF (needs
    citelock[pdf]), Office and OpenDocument files, RTF, EPUB, e-mails. Members of zip archives in a folder are documents
    of their own. Other files are recorded as excluded. In a folder `readers: from_source` opens nothing, because files
    do not say who may read them; in an inbox it leaves the choice to who uploads."""

    kind: Literal["files"]
    path: Path | None = None
    """A folder or zip, relative to the working directory, or `s3://BUCKET/PREFIX` (needs citelock[s3]; credentials come
    from the environment: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`); null: the
    upload inbox that `POST /v1/documents` and `citelock add` write, below the home folder."""
    base_url: str | None = Field(None, pattern=r"^https?://[^\s?#]+$")
    """Where the folder's files are served, so that links lead there; null: to Citelock's own page of a document, below
    `serving.public_url`."""
    space: str | None = Field(None, min_length=1, max_length=200)
    """Name of the space that the documents make up, for filters; null: the source's key."""
    max_file_bytes: int = Field(50_000_000, ge=1)
    """A larger file is recorded as excluded, not read."""
    max_deleted_share: float = Field(0.2, gt=0, le=1)
    """A larger share of a folder's files gone at once stops the sync and asks a person."""

    @model_validator(mode="after")
    def _addresses(self) -> Files:
        if self.base_url is not None and self.path is None:
            raise ValueError("base_url is of a folder: what is uploaded stands nowhere else")
        return self


class SiteSource(SourceBase):
    """What documentation sites and books have in common."""

    path: Path
    """A folder, zip or git working tree, relative to the working directory."""
    base_url: str | None = Field(None, pattern=r"^https?://[^\s?#]+$")
    """Where the site is served, so that links lead there; null: to Citelock's own page of a document, below
    `serving.public_url`."""
    site: Literal["auto", "mdbook", "docusaurus", "mkdocs", "sphinx", "github", "asciidoc", "html"] = "auto"
    """Whose rules make addresses and anchors; auto reads it from the files (`docusaurus.config.js`, `mkdocs.yml`,
    `conf.py`, `antora.yml`, `SUMMARY.md` …), else by what most files are: html is a site that was built, github is
    Markdown without a generator."""
    space: str | None = Field(None, min_length=1, max_length=200)
    """Name of the space that the pages make up, for filters; null: the source's key."""
    changelogs: bool = False
    """Index changelogs and release notes, too."""
    max_file_bytes: int = Field(50_000_000, ge=1)
    """A larger file cannot be read; it is recorded as failed, a PDF or Office file as excluded."""
    max_deleted_share: float = Field(0.2, gt=0, le=1)
    """A larger share of pages gone at once stops the sync and asks a person."""


class DocsFolder(SiteSource):
    """The sources of a documentation site: Markdown as GitHub, Docusaurus or MkDocs show it, reStructuredText of
    Sphinx, AsciiDoc, or the HTML that was built, with the addresses and anchors that the site has. PDF and Office files
    among them are documents of the same source. `readers: from_source` opens nothing, because files do not say who may
    read them."""

    kind: Literal["docs_folder"]


class MarkdownBook(SiteSource):
    """A book: chapters that mdBook's `SUMMARY.md` puts in order, or pages that another generator does. Passages are
    long (`profiles.book`), and each has an id such as ch3-sec2-p45. `readers: from_source` opens nothing, because files
    do not say who may read them."""

    kind: Literal["markdown_book"]
    changelogs: bool = True
    """Index changelogs and release notes, too: a book names its chapters itself."""


Source = Annotated[
    Union[ConfluenceDump, ConfluenceExport, Confluence, ConfluenceMcp, Files, DocsFolder, MarkdownBook],
    Field(discriminator="kind"),
]
