"""A home that machines share: fetching what others did, before something is done or decided.

Belongs here: what is fetched for it. Does not belong here: writing there (`locks`), the store itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from rag_serving.config.loading import Config
from rag_serving.shared_home import HomeFollower, shared_home


def refresh_sources(config: Config, sources: Iterable[str]) -> None:
    """Fetch what other machines shared of sources and their tenants, so that only what is new is done again.

    Raises:
        ConfigError, ObjectHomeError: the store of a shared home cannot be used.
    """
    if home := shared_home(config):
        chosen = sorted(sources)
        for key in chosen:
            home.refresh(f"sources/{key}")
        for tenant in sorted({config.sources[key].tenant for key in chosen}):
            home.refresh(f"tenants/{tenant}")


def refresh_decisions(config: Config) -> str | None:
    """Fetch the small files that say what was synced and published, unless that was done a moment ago.

    Return why all that is here may be older than what other machines did, None where some of it is not: what is wrong
    with one tenant is logged, and holds up no other.
    """
    if not config.object_store.url:
        return None
    follower = _follower(config.model_dump_json())
    follower.fetch_if_due()
    return follower.problem if follower.is_away else None


@lru_cache(maxsize=4)
def _follower(config: str) -> HomeFollower:
    settings = Config.model_validate_json(config)
    home = shared_home(settings)
    assert home
    return home.follower(settings, settings.tenants, to_decide)


def to_decide(path: str, _is_generation: bool) -> bool:
    """Small files say what was published, and what it was made from."""
    return "/" not in path and (path.endswith(".json") or path == "current")


def is_only_followed(config: Config, folder: Path) -> bool:
    """Return whether a folder of the home has but the small files of one that other machines write."""
    home = shared_home(config)
    return home is not None and home.is_followed(folder.absolute().relative_to(home.home).as_posix())
