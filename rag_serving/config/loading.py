"""Configuration: one model for `config/app.yaml`, environment over file, unknown keys refused by name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from rag_serving.config import sections
from rag_serving.config.index import HomeVariable, Index, Indexing, ObjectStore, with_object_store
from rag_serving.config.keys import (
    DELIMITER,
    PREFIX,
    nearest_key,
    replaced,
    secret_variables,
    unknown_variable,
    url_passwords,
    variable_of,
)
from rag_serving.config.models import AnswerGeneration, Context, Embedding, Reranker
from rag_serving.config.phases import PHASES, VARIABLES, Degradation, DocVariables, PhaseSettings, TenantRetrieval
from rag_serving.config.serving import Serving
from rag_serving.config.sources import SLUG, Profiles, Section, Source
from rag_serving.escaping.redaction import ConfigError as ConfigError
from rag_serving.escaping.redaction import hide
from rag_serving.plugins import HOOKS, loaded, missing, require
from rag_serving.privacy import redact_logs


class Tenant(Section):
    """A tenant: sources and readers that share nothing with other tenants."""

    features: sections.Features = sections.Features()
    """Keys of `features` that differ for this tenant."""
    retrieval: TenantRetrieval = TenantRetrieval()
    """Keys of `retrieval` that differ for this tenant: `enabled`, `phase`, `canary`."""
    jobs: sections.TenantJobs = sections.TenantJobs()
    """Keys of `jobs` that differ for this tenant: `concurrency`, `tokens_per_minute`."""
    orchestration: sections.TenantOrchestration = sections.TenantOrchestration()
    """Key of `orchestration` that differs for this tenant: `executor`."""
    keyword: sections.Keyword = sections.Keyword()
    """Keys of `keyword` that differ for this tenant; a list or mapping replaces the whole default."""
    rate_limit_per_minute: int = Field(0, ge=0)
    """Requests of all its callers per minute, in each process; further ones are refused (429, `Retry-After`), first
    those of callers above their share. 0: no limit. Not applied if `serving.auth` is loopback."""
    requests_at_once: int | None = Field(None, ge=0)
    """Requests that one process works on at once; others wait. Requests whose body is still being sent, or that only
    wait for a model to write a streamed answer or for events of documents, do not count. 0: no limit. null: no limit
    for a single tenant; with several tenants 1 for each, or 4 if a language model writes answers. No limit if
    `serving.auth` is loopback."""
    budgets: sections.TenantBudgets = sections.TenantBudgets()
    """Keys of `budgets` that differ for this tenant; `strict` is the same for all."""

    @field_validator("features", mode="before")
    @classmethod
    def _in_capitals(cls, given: Any) -> Any:
        """Return switches by their names: below a tenant's name those of the environment come in lower case, and stand
        over the file's."""
        if not isinstance(given, Mapping):
            return given
        by_name = sorted(given.items(), key=lambda item: str(item[0]).islower())
        return {str(name).upper(): value for name, value in by_name}


DEFAULT_CONFIG = Path("config/app.yaml")


class Config(BaseSettings):
    """Everything `config/app.yaml` may say."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=PREFIX,
        env_nested_delimiter=DELIMITER,
        env_ignore_empty=True,
        nested_model_default_partial_update=True,
    )

    gone: ClassVar = {"rerank_service": "options of `citelock rerank-service`: --host, --port, --device, --batch-size"}
    home: Path = Path(".citelock")
    """Folder of all artifacts, or `s3://BUCKET/PREFIX` (see `object_store`)."""
    object_store: ObjectStore = ObjectStore()
    features: sections.Features = sections.Features()
    ingestion: sections.Ingestion = sections.Ingestion()
    profiles: Profiles = Profiles()
    prompt: sections.Prompt = sections.Prompt()
    documents: sections.Documents = sections.Documents()
    retrieval: sections.Retrieval = sections.Retrieval()
    keyword: sections.Keyword = sections.Keyword()
    degradation: Degradation = Degradation()
    cache: sections.Cache = sections.Cache()
    budgets: sections.Budgets = sections.Budgets()
    reranker: Reranker = Reranker()
    embedding: Embedding = Embedding()
    jobs: sections.Jobs = sections.Jobs()
    orchestration: sections.Orchestration = sections.Orchestration()
    context: Context = Context()
    generation: AnswerGeneration = AnswerGeneration()
    gates: sections.Gates = sections.Gates()
    verification: sections.Verification = sections.Verification()
    evaluation: sections.Evaluation = sections.Evaluation()
    indexing: Indexing = Indexing()
    index: Index = Index()
    serving: Serving = Serving()
    sessions: sections.Sessions = sections.Sessions()
    telemetry: sections.Telemetry = sections.Telemetry()
    audit: sections.Audit = sections.Audit()
    privacy: sections.Privacy = sections.Privacy()
    monitoring: sections.Monitoring = sections.Monitoring()
    tracing: sections.Tracing = sections.Tracing()
    tenants: dict[str, Tenant] = {}
    """The tenants, by name."""
    sources: dict[str, Source] = {}
    """The sources, by key; the key is the Dagster partition."""

    @model_validator(mode="before")
    @classmethod
    def _home_is_a_folder(cls, content: Any) -> Any:
        return with_object_store(content)

    @model_validator(mode="after")
    def _sources_belong(self) -> Config:
        for name in [*self.tenants, *self.sources]:
            if not re.fullmatch(SLUG, name):
                raise ValueError(f"{name!r} must be a slug: lower-case letters, digits, '-' and '_'")
        for key, source in self.sources.items():
            if source.tenant not in self.tenants:
                known = ", ".join(sorted(self.tenants)) or "none"
                raise ValueError(f"sources.{key}.tenant {source.tenant!r} is not among the tenants ({known})")
        return self

    @model_validator(mode="after")
    def _reranker_fills_the_lock(self) -> Config:
        wanted, given = self.retrieval.final_passages, self.reranker.top_n
        if given is not None and given < wanted:
            raise ValueError(
                f"reranker.top_n ({given}) is below retrieval.final_passages ({wanted}), the passages that an answer "
                f"is made from; raise reranker.top_n to {wanted} or lower retrieval.final_passages to {given}"
            )
        return self

    @model_validator(mode="after")
    def _workers_share_a_queue(self) -> Config:
        if self.jobs.embedding == "workers" and self.object_store.url and not self.telemetry.url:
            raise ValueError(
                "jobs.embedding: workers of a home in an object store find their jobs in a database that all machines "
                "reach; set telemetry.url to a Postgres, or jobs.embedding to in_process"
            )
        return self

    @model_validator(mode="after")
    def _canaries_name_switches(self) -> Config:
        canaries = [self.retrieval.canary, *(tenant.retrieval.canary for tenant in self.tenants.values())]
        known = sections.Features.model_fields
        for canary in filter(None, canaries):
            for name, value in canary.features.items():
                if name not in known:
                    raise ValueError(f"canary.features: {name!r} is none of {', '.join(known)}")
                sections.Features.model_validate({name: value})
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
        """Environment over file (the file's content comes as init arguments). To look for each key in an environment
        that has none takes most of the time."""
        content, is_given = init_settings(), any(name.upper().startswith(PREFIX) for name in os.environ)
        given = (env_settings,) if is_given else ()
        return HomeVariable(content), *given, DocVariables(content), init_settings

    def sources_of(self, tenant: str) -> dict[str, Source]:
        """Return the sources of one tenant, by key."""
        return {key: source for key, source in sorted(self.sources.items()) if source.tenant == tenant}

    def phases_of(self, tenant: str) -> PhaseSettings:
        """Return whether and in which phase pages are searched for a tenant's questions."""
        given, own = self.retrieval, self.tenants.get(tenant, Tenant()).retrieval
        return PhaseSettings(
            given.enabled if own.enabled is None else own.enabled,
            given.phase if own.phase is None else own.phase,
            own.canary or given.canary,
        )

    def features_of(self, tenant: str) -> sections.Features:
        """Return the switches for a tenant's questions: what the tenant says over what all tenants have."""
        return _laid_over(self.features, self.tenants.get(tenant, Tenant()).features)

    def keyword_of(self, tenant: str) -> sections.Keyword:
        """Return how the keyword tier reads a tenant's questions: what the tenant says over what all tenants have."""
        return _laid_over(self.keyword, self.tenants.get(tenant, Tenant()).keyword)

    def of_tenant(self, tenant: str) -> Config:
        """Return the same for a tenant's questions: what it says of `features` and `keyword` is said for all."""
        update: dict[str, Any] = {"features": self.features_of(tenant), "keyword": self.keyword_of(tenant)}
        if tenant in self.tenants:
            own = {"features": sections.Features(), "keyword": sections.Keyword()}
            update["tenants"] = {**self.tenants, tenant: self.tenants[tenant].model_copy(update=own)}
        return self.model_copy(update=update)

    def budgets_of(self, tenant: str) -> sections.Budgets:
        """Return what a tenant may use."""
        return self.budgets.of(self.tenants.get(tenant, Tenant()).budgets)

    def executor_of(self, tenant: str) -> sections.ExecutorKind:
        """Return where steps for a tenant run."""
        return self.tenants.get(tenant, Tenant()).orchestration.executor or self.orchestration.executor

    def searched_in_full(self) -> Config:
        """Return the same with retrieval on in its highest phase for all tenants, nothing tried out, nothing cached."""
        retrieval = self.retrieval.model_copy(update={"enabled": True, "phase": PHASES[0], "canary": None})
        own = {"retrieval": TenantRetrieval()}
        tenants = {name: tenant.model_copy(update=own) for name, tenant in self.tenants.items()}
        cache = self.cache.model_copy(update={"semantic": False})
        return self.model_copy(update={"retrieval": retrieval, "tenants": tenants, "cache": cache})


_Keys = TypeVar("_Keys", bound=BaseModel)


def _laid_over(given: _Keys, own: _Keys) -> _Keys:
    return given.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


def load_config(path: Path | None = None) -> Config:
    """Read the configuration file, with the environment over it.

    `path` falls back to `CITELOCK_CONFIG`, then to `config/app.yaml`. Raises ConfigError: the file is missing, is not
    YAML, or says something that is not allowed.
    """
    path = config_path(path)
    config = _loaded(_text(path), str(path), frozenset(os.environ.items()))
    redact_logs(config.privacy.redactor())
    return config


@lru_cache(maxsize=4)
def _loaded(text: str, origin: str, environment: frozenset[tuple[str, str]]) -> Config:  # noqa: ARG001
    """Return a file's text as a configuration: each step of a build reads the file anew, and few find it altered."""
    return parse_config(_content(text, origin), origin)


def load_usable(path: Path | None = None) -> tuple[Config, dict[str, str]]:
    """Read the configuration as `load_config` does, but leave out each source that cannot be used.

    For what must go on beside a faulty source. Nothing may be deleted for its absence: it is there, and misspelt.

    Returns:
        the configuration, and for each source left out the reason.

    Raises:
        ConfigError: something else than a source is at fault.
    """
    path = config_path(path)
    content, origin = _content(_text(path), str(path)), str(path)
    _refuse_unknown_variable(content)
    sources = content.get("sources")
    if not isinstance(sources, dict):
        return _validated(content, origin), {}
    faults: dict[str, str] = {}
    for key, source in sources.items():
        try:
            _validated({**content, "sources": {key: source}}, origin)
        except ConfigError as error:
            faults[str(key)] = str(error)
    usable = {key: source for key, source in sources.items() if str(key) not in faults}
    return _validated({**content, "sources": usable}, origin), faults


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"configuration {path} cannot be read ({error.strerror}); give one with --config or CITELOCK_CONFIG"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"configuration {path} is not valid YAML: {error}") from None


def _content(text: str, origin: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"configuration {origin} is not valid YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"configuration {origin} must be a mapping of keys, not a {type(content).__name__}")
    return content


def config_path(path: Path | None = None) -> Path:
    """Return the file that `load_config` reads."""
    return path or Path(os.environ.get("CITELOCK_CONFIG") or DEFAULT_CONFIG)


def load_or_default(path: Path | None = None) -> Config:
    """Return the given configuration, else the default file where there is one, else the built-in defaults. Raises
    ConfigError: as `load_config` does."""
    if path is None and "CITELOCK_CONFIG" not in os.environ and not DEFAULT_CONFIG.exists():
        return parse_config({})
    return load_config(path)


def parse_config(content: dict[str, Any], origin: str = "configuration") -> Config:
    """Return a mapping as a configuration. Raises ConfigError: a key, or a variable of the environment, is unknown or
    its value is not allowed; only the first fault is told."""
    _refuse_unknown_variable(content)
    return _validated(content, origin)


def _refuse_unknown_variable(content: Mapping[str, Any]) -> None:
    if unknown := unknown_variable(Config, os.environ, content):
        raise ConfigError(unknown)


def _validated(content: dict[str, Any], origin: str) -> Config:
    try:
        config = Config(**content)
    except SettingsError as error:
        raise ConfigError(f"the environment's {PREFIX} variables cannot be read: {error}") from None
    except ValidationError as error:
        # A misspelt key first: that its right name is missing follows from it.
        first = min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
        raise ConfigError(f"{origin}: {_explain(first)}") from None
    _refuse_missing(config)
    said = config.model_dump()
    redact_logs(config.privacy.redactor())
    hide({"CITELOCK_SECRET", "PGPASSWORD", *secret_variables(said)}, url_passwords(said))
    return config


def _refuse_missing(config: Config) -> None:
    """Refuse what the plug-in `governance` or an extra does where it is not installed: nothing runs without what is
    turned on."""
    for section, provider in (("embedding", config.embedding.provider), ("generation", config.generation.provider)):
        if provider == "ollama":
            require("ollama", f"{section}.provider: ollama")
    limited = config.budgets.is_limited or any(config.budgets_of(tenant).is_limited for tenant in config.tenants)
    wanted = {
        "audit": f"audit.mode: {config.audit.mode}" if config.audit.mode != "off" else "",
        "budgets": "budgets" if limited else "",
        "names": "names in privacy.redact" if "names" in config.privacy.redact else "",
        "phones": "privacy.regions" if config.privacy.regions else "",
    }
    for hook, setting in wanted.items():
        if setting and hook not in loaded(HOOKS):
            raise missing(setting, "governance")


def _explain(fault: ErrorDetails) -> str:
    where = ".".join(_path(fault["loc"]))
    if fault["type"] == "extra_forbidden":
        if now := replaced(Config, fault["loc"]):
            return f"key {where!r} is now {now}"
        near = nearest_key(Config, fault["loc"])
        return f"unknown key {where!r}" + (f"; did you mean {near!r}?" if near else "")
    message = fault["msg"].removeprefix("Value error, ")
    for variable in (variable_of(where.split(".")), VARIABLES.get(where.rpartition("retrieval.")[2], "")):
        if os.environ.get(variable):
            message += f" (set by {variable})"
            break
    return f"{where}: {message}" if where else message


def _path(location: tuple[int | str, ...]) -> list[str]:
    """Return the keys of a fault's place as the file has them: without the tags of the unions (kinds of source and
    auth)."""
    keys = [str(part) for part in location]
    if keys[:1] == ["sources"]:
        tail = keys[3:]
        keys = keys[:2] + (tail[:1] + tail[2:] if tail[:1] == ["auth"] else tail)
    return keys
