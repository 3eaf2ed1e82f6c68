"""Read access: a principal becomes the set of reader classes it satisfies, before anything is scored. A reader class is
a conjunction of clauses, each a set of principals of which one must match: `group:staff|user:alice & group:ops` may be
read by members of ops who are alice or in staff. `everyone` is the empty conjunction; `nobody` is what unknown or
unreadable restrictions become. Effective readers of a page = space readers ∩ its own restrictions ∩ those of every
ancestor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import get_args
from urllib.parse import quote, unquote

from rag_serving.config.serving import Role

ROLES: frozenset[str] = frozenset(get_args(Role))
READER: frozenset[str] = frozenset({"reader"})
EVERYONE = "everyone"
NOBODY = "nobody"


@dataclass(frozen=True)
class Principal:
    """The caller: a tenant's user with groups; without identity only what everyone may read. `roles` open functions,
    such as reports to an operator, and no page."""

    tenant: str
    user: str | None = None
    groups: frozenset[str] = field(default_factory=frozenset)
    roles: frozenset[str] = READER

    @property
    def names(self) -> frozenset[str]:
        """The caller's principals, as reader classes spell them."""
        users = {f"user:{self.user}"} if self.user else set()
        return frozenset(users | {f"group:{group}" for group in self.groups})


def reader_class(clauses: Iterable[Iterable[str]]) -> str:
    """Return the canonical name of a conjunction of clauses; a clause without a principal makes it `nobody`."""
    canonical = {tuple(sorted(set(clause))) for clause in clauses}
    if () in canonical:
        return NOBODY
    if not canonical:
        return EVERYONE
    return "&".join(sorted("|".join(quote(name, safe=":@. ") for name in clause) for clause in canonical))


@lru_cache(maxsize=1 << 16)
def clauses_of(readers: str) -> frozenset[frozenset[str]]:
    """Return the clauses of a reader class; `reader_class` of them is the class again."""
    if readers == EVERYONE:
        return frozenset()
    if readers == NOBODY or not readers:
        return frozenset({frozenset()})
    return frozenset(frozenset(unquote(name) for name in clause.split("|")) for clause in readers.split("&"))


def intersect_readers(first: str, second: str) -> str:
    """Return the intersection of two reader classes."""
    return reader_class(clauses_of(first) | clauses_of(second))


def satisfies(principal: Principal, readers: str) -> bool:
    """Return whether every clause of the class names this principal."""
    return _name_all(principal.names, readers)


@lru_cache(maxsize=1 << 16)
def may_all_read(first: str, second: str) -> bool:
    """Return whether everyone who may read the first reader class may read the second. A class is a conjunction of
    clauses, each a set of names of which one must match. It implies a clause exactly when one of its own clauses is a
    subset: a caller with all names outside the clause would satisfy it otherwise."""
    return all(any(own <= clause for own in clauses_of(first)) for clause in clauses_of(second))


def satisfied_classes(principal: Principal, tenant: str, classes: frozenset[str]) -> frozenset[str]:
    """Return those of a tenant's reader classes that the principal may read; none of another tenant's."""
    return _satisfied(principal.names, classes) if principal.tenant == tenant else frozenset()


@lru_cache(maxsize=128)
def _satisfied(names: frozenset[str], classes: frozenset[str]) -> frozenset[str]:
    return frozenset(readers for readers in classes if _name_all(names, readers))


def _name_all(names: frozenset[str], readers: str) -> bool:
    return not any(names.isdisjoint(clause) for clause in clauses_of(readers))


def choose_tenant(tenants: list[str], tenant: str | None, how: str) -> str:
    """Return the requested tenant, or the only one. Raises ValueError: the tenant is not configured, or there are
    several; the message says how to name one."""
    if tenant is None and len(tenants) == 1:
        return tenants[0]
    if tenant not in tenants:
        problem = f"name the tenant with {how}" if tenant is None else f"tenant {tenant!r} is not configured"
        raise ValueError(f"{problem}; there are: {', '.join(tenants) or 'none'}")
    return tenant
