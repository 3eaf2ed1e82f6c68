"""The kinds of sources a configuration may name, one model each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Union, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

if TYPE_CHECKING:
    from rag_serving.config.sections import Monitoring


def last_ticks(expression: str, before: datetime, count: int) -> list[datetime]:
    """Return the last ticks before a moment, the newest first."""
    from croniter import croniter

    ticks = croniter(expression, before.astimezone(UTC))
    return [ticks.get_prev(datetime) for _ in range(count)]


LONGEST = 200
"""Characters of an expression; a list of all minutes of an hour has 169."""


def check_cron(expression: str) -> str:
    """Return an expression that Dagster can follow. Raises ValueError: it has not five fields, a field is out of range,
    or no such day ever comes."""
    from croniter import croniter
    from croniter.croniter import CroniterError

    example = "minute hour day month weekday, such as '*/15 * * * *'"
    try:
        if len(expression) > LONGEST or len(croniter.expand(expression)[0]) != 5:
            raise ValueError(f"{expression[:LONGEST]!r} is not a cron expression of five fields: {example}")
        croniter(expression, datetime.now(UTC)).get_next()
    except CroniterError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{expression!r} is not a cron expression ({reason}); five fields: {example}") from None
    return expression


SLUG = r"^[a-z0-9][a-z0-9_-]{0,62}$"


class Section(BaseModel):
    """A group of keys; unknown ones are errors.

    The line under a key is its description in docs/configuration.md, whose maker reads it from the source: for pydantic
    to do so would take every command 40 ms. A section is built when the configuration is, not once more before.
    A `ClassVar` is a value that nobody needs to turn: a configuration that sets it is told that it is fixed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    gone: ClassVar[Mapping[str, str]] = {}  # what a key of an earlier version is now, by its name


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
    """Tenant that the pages belong to."""
    readers: Readers = "from_source"
    """Who may read the space, or a list of principals."""
    schedule: str | None = None
    """Cron expression of the sync, five fields in UTC; null: manual syncs only."""
    stale_after_hours: float | None = Field(None, gt=0)
    """Hours without a complete sync after which the source is overdue; null: two ticks of its schedule, else a week."""
    profile: ProfileName | None = None
    """Profile (`profiles`) for this kind of text; null: book for markdown_book, docs for docs_folder, otherwise
    wiki."""
    id_prefix: str = ""
    """Prefix of page ids, where two sites share ids."""
    max_deleted_share: float = Field(0.2, gt=0, le=1)
    """Share of missing pages above which a sync deletes nothing. 1: every deletion is believed. docs/operations.md
    lists further losses that are not believed."""
    resolve_lists: bool = False
    """Also index the lists of children and page properties. A reader finds only the listed pages that the reader may
    read."""

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


class ConfluencePages(SourceBase):
    """What all kinds of sources with pages of Confluence have."""

    flavor: Literal["auto", "cloud", "datacenter"] = "auto"
    """Format of heading anchors; auto detects it from the address, the export or the links of pages."""


class AttachmentSource(ConfluencePages):
    """What kinds of sources have that hold attached files."""

    attachments: Literal["none", "text", "all"] = "none"
    """Read attached files: none, text formats, or all. text: plain text, Markdown, tables, source code, HTML. all: also
    PDF, Office files, zip, and, with citelock[formats], OpenDocument files, EPUB and e-mails; PDF needs citelock[pdf].
    Files of other types are recorded as excluded."""
    gone: ClassVar[Mapping[str, str]] = {"max_attachment_bytes": "max_file_bytes"}
    max_file_bytes: int = Field(10_000_000, ge=1)
    """Bytes beyond which a file is excluded."""


class ConfluenceDump(AttachmentSource):
    """A folder or zip of REST v1 page envelopes, one JSON file for each page; files attached to a page are in
    `attachments/<page id>/`."""

    kind: Literal["confluence_dump"]
    path: Path
    """The folder or zip file, relative to the working directory."""


class ConfluenceExport(AttachmentSource):
    """A space export, in XML or HTML, as an administrator of the space downloads it. `readers: from_source` reads the
    permissions in XML. HTML exports have no restrictions, versions, labels and comments: prefer XML."""

    kind: Literal["confluence_export"]
    path: Path
    """The zip file, relative to the working directory."""
    base_url: str
    """Site that links lead to, such as https://acme.atlassian.net/wiki; an export does not contain it."""
    space: str | None = None
    """Key of the space; needed if the export has several spaces or does not name its space."""
    comments: bool = False
    """Also index the comments of each page, as a separate text; XML only."""
    unrestricted: bool = False
    """Declare that no page of an HTML export is restricted. Otherwise all are hidden, because HTML does not contain
    restrictions."""


class Webhook(Section):
    """Events of the site, which it sends to `POST /v1/hooks/confluence/NAME`: the pages that they name are synced at
    once (docs/operations.md)."""

    secret_env: str = Field(min_length=1)
    """Environment variable with the secret that signs events (`X-Hub-Signature`), or that `X-Citelock-Token` shows."""


class Confluence(AttachmentSource):
    """A live Confluence site over REST."""

    kind: Literal["confluence"]
    base_url: str
    """Address of the site with its context path, such as https://acme.atlassian.net/wiki."""
    space: str = Field(min_length=1)
    """Key of the space."""
    auth: Auth = NoAuth()
    """How to sign in."""
    also: list[Literal["blog_posts", "archived"]] = []
    """Also index `blog_posts`, and `archived` pages."""
    gone: ClassVar[Mapping[str, str]] = {
        **{name: f"also: [{name}]" for name in ("blog_posts", "archived")},
        **AttachmentSource.gone,
    }
    listing_every_s: float = Field(0, ge=0)
    """Seconds for which a complete listing is valid; 0: every sync lists the space, so that no restriction is older
    than the sync. With a larger value, syncs in between fetch only what CQL reports (edits, new and deleted pages);
    changes of readers, moves and labels may be late by that many seconds. docs/operations.md compares the costs."""
    webhook: Webhook | None = None
    """Changes as they are made: `secret_env`, the variable with the secret of events; null: only syncs find them."""
    overlap_hours: ClassVar[float] = 24  # hours before the last sync from which CQL is asked again
    batch_size: ClassVar[int] = 50  # pages fetched in one request
    timeout_s: ClassVar[float] = 30  # seconds that a response may pause
    deadline_s: ClassVar[float] = 120  # seconds of a whole response
    max_response_bytes: ClassVar[int] = 256 * 1024**2  # bytes beyond which a response is refused
    download_hosts: list[str] = []
    """Further hosts for downloads. For Atlassian's cloud one is api.media.atlassian.com. A name that resolves to a
    private address is used only if base_url is at a private address too."""
    max_retries: ClassVar[int] = 5  # retries of a throttled or failing request
    max_requests_per_s: float = Field(10, gt=0)
    """Requests to the site per second and process."""
    comments: bool = False
    """Also index the comments of each page, as a separate text. Search lists the comments of the space, 200 in a
    request; only pages with changed comments are then requested. Attachments, too, cost one request for 200 of them,
    and one for each changed file."""
    groups: bool = False
    """Read members of groups, for `serving.groups: synced`. A group whose members the account may not see has none.
    Members of nested groups count as far as the site lists them."""


McpTool = Literal["page", "search", "tree", "restrictions"]
_MCP_TOOLS: Mapping[McpTool, str] = {  # of sooperset/mcp-atlassian
    "page": "confluence_get_page",
    "search": "confluence_search",
    "tree": "confluence_get_space_page_tree",
    "restrictions": "confluence_get_page_restrictions",
}


class ConfluenceMcp(ConfluencePages):
    """A space read through a Confluence MCP server, which is started as a command (`command`) or reached over HTTP
    (`url`). The default tool names are those of sooperset/mcp-atlassian. Needs citelock[mcp]."""

    kind: Literal["confluence_mcp"]
    space: str = Field(pattern=r"^[^\"\\\s]+$")
    """Key of the space. The server's own filter is not trusted: a page is accepted only if the list or the page names
    this space and neither names another one; other pages are recorded with the reason."""
    command: list[str] = []
    """Command that starts the server, with its arguments; it uses standard input and output."""
    env: list[str] = []
    """Names of environment variables that the command receives; besides them only PATH, HOME and similar ones."""
    url: str | None = None
    """Address of a server that speaks streamable HTTP, such as http://127.0.0.1:8000/mcp."""
    token_env: str | None = None
    """Environment variable with the bearer token for `url`."""
    tools: dict[McpTool, str] = {}
    """Other names of the server's tools: `page` (page_id or id), `search` (CQL), `tree`, `restrictions`."""
    gone: ClassVar[Mapping[str, str]] = {f"{use}_tool": f"tools.{use}" for use in get_args(McpTool)}
    unrestricted: bool = False
    """Declare that pages without restrictions in the response are unrestricted. Otherwise they are hidden."""
    base_url: str | None = None
    """Site that links lead to."""
    timeout_s: ClassVar[float] = 60  # seconds that a response may take

    def tool(self, use: McpTool) -> str:
        """Return the name of the server's tool for a use."""
        return self.tools.get(use, _MCP_TOOLS[use])

    @model_validator(mode="after")
    def _one_way(self) -> ConfluenceMcp:
        if bool(self.command) == bool(self.url):
            raise ValueError("a confluence_mcp source needs either a command or a url")
        return self


class FilesBase(SourceBase):
    """What documents, documentation sites and books have in common."""

    base_url: str | None = Field(None, pattern=r"^https?://[^\s?#]+$")
    """Address where the files are served, for links; null: links lead to Citelock's own page of a document, below
    `serving.public_url`."""
    space: str | None = Field(None, min_length=1, max_length=200)
    """Space of the documents, for filters; null: the source's key."""
    max_file_bytes: int = Field(50_000_000, ge=1)
    """Bytes beyond which a file is excluded, or an upload is refused (413)."""


class Files(FilesBase):
    """Files in a folder, or documents that people upload: Markdown, HTML, plain text, tables, source code, PDF (needs
    citelock[pdf]), Office files; with citelock[formats] OpenDocument files, RTF, EPUB, e-mails. Members of zip archives
    in a folder are separate documents. Other files are recorded as excluded. For a folder, `readers: from_source` makes
    nothing readable, because files do not say who may read them; for an inbox, the uploader chooses."""

    kind: Literal["files"]
    path: Path | None = None
    """Folder, zip or `s3://BUCKET/PREFIX`; null: the upload inbox. null: the upload inbox in the home folder, which
    `POST /v1/documents` and `citelock add` fill."""

    @model_validator(mode="after")
    def _addresses(self) -> Files:
        if self.base_url is not None and self.path is None:
            raise ValueError("base_url is of a folder: what is uploaded stands nowhere else")
        return self


class SiteSource(FilesBase):
    """What documentation sites and books have in common."""

    path: Path
    """A folder, zip or git working tree."""
    site: Literal[
        "auto", "mdbook", "docusaurus", "mkdocs", "sphinx", "eleventy", "jekyll", "hugo", "github", "html"
    ] = "auto"
    """Generator whose rules determine addresses and anchors; auto detects it from the files (`docusaurus.config.js`,
    `mkdocs.yml`, `conf.py`, `.eleventy.js`, `_config.yml`, `hugo.toml`, `SUMMARY.md` …), otherwise from
    the type of most files: html is a built site, github is Markdown without a generator."""
    changelogs: bool = False
    """Also index changelogs and release notes."""


class DocsFolder(SiteSource):
    """The sources of a documentation site: Markdown as GitHub, Docusaurus, MkDocs, Eleventy, Jekyll or Hugo show it,
    reStructuredText of Sphinx, or the built HTML (of AsciiDoc, too), with the addresses and anchors of the site. PDF
    and Office files among them are documents of the same source. `readers: from_source` makes nothing readable, because
    files do not say who may read them."""

    kind: Literal["docs_folder"]


class MarkdownBook(SiteSource):
    """A book: chapters in the order of mdBook's `SUMMARY.md`, or pages in the order of another generator. Passages are
    long (`profiles.book`), and each has an id such as ch3-sec2-p45. `readers: from_source` makes nothing readable,
    because files do not say who may read them."""

    kind: Literal["markdown_book"]
    changelogs: bool = True
    """Also index changelogs; a book lists chapters itself."""


Source = Annotated[
    Union[ConfluenceDump, ConfluenceExport, Confluence, ConfluenceMcp, Files, DocsFolder, MarkdownBook],
    Field(discriminator="kind"),
]

DEFAULT_OF_KIND: Mapping[str, ProfileName] = {"markdown_book": "book", "docs_folder": "docs"}
"""The profile of a source that names none; other kinds are `wiki`."""


class Profile(Section):
    """Settings for one kind of text. Values that are null are taken from `ingestion`."""

    chunk_size_tokens: int | None = Field(None, ge=32, le=4096)
    """Target size in tokens for the parts of a long section; null: `ingestion.chunk_size_tokens`."""
    # Smallest size of a part, unless its section allows no other; null: 0.48 of the target size.
    chunk_min_tokens: ClassVar[int | None] = None
    # Largest size of a part, unless its section allows no other; a section up to this size is one chunk. null:
    # 1.28 of the target size.
    chunk_max_tokens: ClassVar[int | None] = None
    chunk_stride_tokens: int | None = Field(None, ge=0, le=1024)
    """Tokens of overlap, never cited; null: `ingestion.chunk_stride_tokens`."""
    # Never cut a list or table that fits. Code is kept whole in every profile.
    keep_runs: ClassVar[bool] = False
    pool: ClassVar[int] = 10  # book questions: best passages from which close ones are chosen
    passages: ClassVar[int] = 5  # book questions: passages of an answer, in the book's order


class BookProfile(Profile):
    """Settings for text that is read from beginning to end."""

    chunk_min_tokens = 500
    chunk_max_tokens = 1000
    keep_runs = True
    min_similarity: float | None = Field(None, ge=-1, le=1)
    """Book questions: cosine similarity that the nearest passage needs; null: 0.7 if `embedding` is one of OpenAI's
    text-embedding-3 models, for whose scale this is, otherwise the value of `gates`."""
    min_confidence: float | None = Field(None, ge=0, le=1)
    """Book questions: confidence that an answer needs; null: 0.6 with the same models, otherwise the value of
    `gates`."""
    warn_without_words: ClassVar[bool] = True  # book questions: flag answers whose passages lack the question's words


class Profiles(Section):
    """Definitions of the profiles that sources name. By default a source of kind markdown_book uses `book`, docs_folder
    uses `docs`, and all others use `wiki`."""

    wiki: Profile = Profile()
    """Short passages, for pages in which people look things up."""
    docs: Profile = Profile()
    """Documentation sites."""
    book: BookProfile = BookProfile(chunk_size_tokens=750, chunk_stride_tokens=100)
    """Text that is read from beginning to end: long passages with overlap."""

    def of(self, source: SourceBase) -> Profile:
        """Return the profile of a source."""
        profile: Profile = getattr(self, self.name_of(source))
        return profile

    def name_of(self, source: SourceBase) -> ProfileName:
        """Return the name of a source's profile: its own, or that of its kind."""
        return source.profile or DEFAULT_OF_KIND.get(str(getattr(source, "kind", "")), "wiki")


GRACE = timedelta(minutes=10)
"""How long after a tick its sync may take before the tick counts as missed; half an interval at most."""


@dataclass(frozen=True)
class Freshness:
    """Whether a source is overdue, and why."""

    overdue: bool
    detail: str
    last_sync: datetime | None
    oldest: datetime  # a complete sync before this moment is too old
    age_hours: float | None


def judge(
    source: SourceBase,
    monitoring: Monitoring,
    now: datetime,
    *,
    last_sync: datetime | None,
    known_since: datetime,
    syncing: bool = False,
) -> Freshness:
    """Return whether a source is overdue.

    Args:
        source: its settings.
        monitoring: the settings of all sources.
        now: the present moment.
        last_sync: when its last complete sync ended; None: there was none.
        known_since: when the source was first seen, which counts where there was no sync yet.
        syncing: whether a sync is in flight, which gets one tick more.
    """
    oldest, rule = _limit(source, monitoring, now, syncing)
    ended = f"the last complete sync ended {_moment(last_sync)}" if last_sync else "there was no complete sync yet"
    return Freshness(
        overdue=(last_sync or known_since) < oldest,
        detail=f"{ended}; by {rule} one is due after {_moment(oldest)}",
        last_sync=last_sync,
        oldest=oldest,
        age_hours=round((now - last_sync) / timedelta(hours=1), 2) if last_sync else None,
    )


def _limit(source: SourceBase, monitoring: Monitoring, now: datetime, syncing: bool) -> tuple[datetime, str]:
    """Return the moment before which a sync is too old, and the rule that says so."""
    hours, rule = source.stale_after_hours, "its stale_after_hours"
    if hours is None and source.schedule is not None:
        oldest = _missed_tick(source.schedule, monitoring.missed_syncs + syncing, now)
        return oldest, f"its schedule {source.schedule!r} (UTC, {monitoring.missed_syncs} ticks)"
    if hours is None:
        hours, rule = monitoring.stale_after_hours, "the limit of sources without a schedule"
    return now - timedelta(hours=hours), rule


def _missed_tick(schedule: str, missed: int, now: datetime) -> datetime:
    """Return the tick that has passed so many times without a sync, not counting one whose sync may still be at it."""
    ticks = last_ticks(schedule, now, missed + 1)
    grace = min(GRACE, (ticks[0] - ticks[1]) / 2)
    return ticks[missed - 1] if now - ticks[0] >= grace else ticks[missed]


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
