"""Faults of Postgres, with telemetry, receipts and audit in it, or the index as well.

Belongs here: stages on a Postgres of their own. Does not belong here: starting one (`services`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from evals.load.services import Postgres, postgres
from evals.load.stages import FIRST_SOURCE, Place, Stage

Act = Callable[[Postgres], object]


def restart(server: Postgres) -> None:
    """Stop it as an administrator does, and start it again."""
    server.stop("fast")
    server.start()


def stop_at_once(server: Postgres) -> None:
    server.stop("immediate")


def nothing(_: Postgres) -> None:
    """Do nothing."""


def database_fault(inject: Act, heal: Act, with_index: bool) -> Callable[[Place], AbstractContextManager[Stage]]:
    """Return the stage of a server whose telemetry, or whose index as well, is in a Postgres that fails."""

    @contextmanager
    def staged(place: Place) -> Iterator[Stage]:
        with postgres(with_index) as database:
            sections: dict[str, Any] = {"telemetry": {"url": database.url}, "audit": {"mode": "best_effort"}}
            if with_index:
                config = place.config(**sections, index=_index(database))
                _publish_there(place)
            else:
                place.copy_home()
                config = place.config(**sections)
            with place.serving(config) as server:
                yield Stage(
                    server, place.installation(config), lambda: inject(database), lambda: heal(database),
                    facts=lambda: _facts(database),
                )  # fmt: skip

    return staged


def _index(database: Postgres) -> dict[str, Any]:
    users = {"url": "citelock_app", "writer_url": "citelock_writer", "owner_url": "postgres"}
    urls = {name: f"postgresql://{user}@{database.address}" for name, user in users.items()}
    return {"kind": "postgres", **urls}


def _publish_there(place: Place) -> None:
    config = place.folder / "load.yaml"
    for done in (place.run("index", "migrate", "--config", str(config)), place.build(config, FIRST_SOURCE)):
        if done.returncode:
            raise RuntimeError(f"the build into Postgres failed: {done.stderr[-1000:]}")


def _facts(database: Postgres) -> dict[str, Any]:
    import psycopg

    with psycopg.connect(database.url) as connection:
        row = connection.execute("SELECT count(*) FROM receipts").fetchone()
    return {"receipts_stored": row is not None and row[0] > 0}
