"""Decisions: what to ingest, what to publish, which partitions to register."""

from __future__ import annotations

from dataclasses import replace

from rag_assets.state.planning import (
    QUIET_SECONDS,
    RETRY_SECONDS,
    PublishAttempt,
    PublishRequests,
    SourceFacts,
    partition_changes,
    publish_requests,
    sources_to_ingest,
    tenants_to_publish,
)

BUILT = SourceFacts("eng", "acme", "settings", "print", "settings", "print")


def decide(
    wanted: str = "new",
    published: str | None = "old",
    publishing: tuple[str, ...] = (),
    syncing: tuple[str, ...] = (),
    memory: PublishAttempt | None = None,
    now: float = 0.0,
) -> PublishRequests:
    return publish_requests(
        {"acme": wanted}, {"acme": published}, publishing, syncing, {"acme": memory or PublishAttempt()}, now
    )


def test_a_source_that_was_never_built_is_ingested() -> None:
    assert sources_to_ingest([replace(BUILT, built_settings=None)]) == {"eng": "never built"}


def test_a_source_with_the_same_fingerprint_and_settings_is_left_alone() -> None:
    assert sources_to_ingest([BUILT]) == {}


def test_a_source_with_another_fingerprint_is_ingested() -> None:
    assert sources_to_ingest([replace(BUILT, fingerprint="other")]) == {"eng": "its pages changed"}


def test_a_source_whose_settings_changed_is_ingested() -> None:
    assert sources_to_ingest([replace(BUILT, settings="other")]) == {"eng": "its settings changed"}


def test_a_live_source_is_always_synced_because_only_a_sync_can_tell() -> None:
    assert list(sources_to_ingest([replace(BUILT, fingerprint=None, built_fingerprint=None)])) == ["eng"]


def test_a_full_build_ingests_what_has_not_changed() -> None:
    assert list(sources_to_ingest([BUILT], full=True)) == ["eng"]


def test_a_tenant_is_published_when_its_inputs_differ_from_the_manifests() -> None:
    wanted = {"acme": "new", "beta": "same", "gamma": "first"}
    published = {"acme": "old", "beta": "same", "gamma": None}
    assert tenants_to_publish(wanted, published) == {
        "acme": "its chunks or settings changed",
        "gamma": "nothing published yet",
    }


def test_a_changed_source_starts_its_tenants_publish() -> None:
    assert decide().start == {"acme": "new"}


def test_a_sync_with_nothing_changed_publishes_nothing() -> None:
    decision = decide(wanted="same", published="same")
    assert decision.start == {}
    assert decision.skipped == {"acme": "nothing changed"}


def test_a_tenant_with_a_publish_run_in_flight_is_not_started_twice() -> None:
    decision = decide(publishing=("acme",))
    assert decision.start == {}
    assert decision.skipped == {"acme": "a publish run is in flight"}


def test_a_tenant_waits_for_its_other_sources_sync() -> None:
    assert decide(syncing=("acme",)).start == {}


def test_a_source_that_is_always_syncing_does_not_starve_its_tenant() -> None:
    first = decide(syncing=("acme",), now=1000.0)
    later = decide(syncing=("acme",), memory=first.memory["acme"], now=1000.0 + QUIET_SECONDS)
    assert later.start == {"acme": "new"}


def test_a_publish_that_failed_is_not_repeated_at_once() -> None:
    first = decide(now=1000.0)
    again = decide(memory=first.memory["acme"], now=1030.0)
    assert again.start == {}


def test_a_publish_that_failed_is_tried_again_later_and_each_time_later() -> None:
    second = decide(memory=decide(now=0.0).memory["acme"], now=RETRY_SECONDS)
    assert second.start == {"acme": "new"}
    assert decide(memory=second.memory["acme"], now=2 * RETRY_SECONDS).start == {}
    assert decide(memory=second.memory["acme"], now=3 * RETRY_SECONDS).start == {"acme": "new"}


def test_new_changes_do_not_wait_for_the_retry_of_a_failed_publish() -> None:
    failed = decide(now=0.0).memory["acme"]
    assert decide(wanted="newer", memory=failed, now=30.0).start == {"acme": "newer"}


def test_the_third_return_of_the_same_inputs_has_a_key_of_its_own() -> None:
    keys, memory, published = [], PublishAttempt(), "a"
    for tick, wanted in enumerate(["b", "a", "b", "a"]):
        decision = decide(wanted, published, memory=memory, now=100.0 * tick)
        keys.append(decision.memory["acme"].run_key("acme"))
        published = wanted
        memory = decide(wanted, published, memory=decision.memory["acme"], now=100.0 * tick + 60).memory["acme"]
    assert len(set(keys)) == 4


def test_a_run_that_was_never_started_is_asked_for_again_and_is_no_failed_try() -> None:
    first = decide(now=1000.0).memory["acme"]
    again = publish_requests({"acme": "new"}, {"acme": "old"}, (), (), {"acme": first}, 1030.0, never_started=["acme"])
    assert again.start == {"acme": "new"}
    assert again.memory["acme"].tries == first.tries == 1
    assert again.memory["acme"].run_key("acme") != first.run_key("acme")


def test_the_memory_keeps_only_tenants_that_exist() -> None:
    decision = publish_requests({}, {}, (), (), {"gone": PublishAttempt("old", 1)}, 0.0)
    assert decision.memory == {}


def test_partitions_follow_the_configuration() -> None:
    changes = partition_changes(["eng", "ops"], ["ops", "old"])
    assert (changes.add, changes.delete) == (("eng",), ("old",))


def test_a_partition_with_a_run_in_flight_is_not_deleted() -> None:
    assert not partition_changes(["eng"], ["eng", "old"], in_flight=["old"])
