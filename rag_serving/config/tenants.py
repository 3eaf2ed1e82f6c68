"""The section `tenants.NAME` of `config/app.yaml`: what differs for one tenant.

Belongs here: keys that a tenant may set for itself.
Does not belong here: their defaults and descriptions, which are in the modules of their sections.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from rag_serving.config.budgets import TenantBudgets
from rag_serving.config.jobs import TenantJobs
from rag_serving.config.keyword import Keyword
from rag_serving.config.orchestration import TenantOrchestration
from rag_serving.config.phases import TenantRetrieval
from rag_serving.config.sections import Features
from rag_serving.config.sources import Section


class Tenant(Section):
    """A tenant: sources and readers that share nothing with other tenants."""

    features: Features = Features()
    """Keys of `features` that differ for this tenant."""
    retrieval: TenantRetrieval = TenantRetrieval()
    """Keys of `retrieval` that differ for this tenant: `enabled`, `phase`, `canary`."""
    jobs: TenantJobs = TenantJobs()
    """Keys of `jobs` that differ for this tenant: `concurrency`, `jobs_per_minute`, `tokens_per_minute`."""
    orchestration: TenantOrchestration = TenantOrchestration()
    """Key of `orchestration` that differs for this tenant: `executor`."""
    keyword: Keyword = Keyword()
    """Keys of `keyword` that differ for this tenant; a list or mapping replaces the whole default."""
    rate_limit_per_minute: int = Field(0, ge=0)
    """Requests of all its callers per minute, in each process; further ones are refused (429, `Retry-After`), first
    those of callers above their share. 0: no limit. Not applied if `serving.auth` is loopback."""
    requests_at_once: int | None = Field(None, ge=0)
    """Requests that one process works on at once; others wait. Requests whose body is still being sent, or that only
    wait for a model to write a streamed answer or for events of documents, do not count. 0: no limit. null: no limit
    for a single tenant; with several tenants 1 for each, or 4 if a language model writes answers. No limit if
    `serving.auth` is loopback."""
    budgets: TenantBudgets = TenantBudgets()
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
