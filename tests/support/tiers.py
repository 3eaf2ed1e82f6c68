"""The tier of each test: `unit`, `parts` or `real`; and what runs at night alone.

`unit` starts no process and opens no socket, which `make check` holds; `real` needs a program, server or model
that is not the product; `parts` is all between.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

TIERS = ("real", "parts", "unit")
"""In the order in which they begin."""
REAL_FOLDERS = frozenset({"browser", "deploy", "ocr", "postgres", "qdrant", "rerank_service"})
REAL_FIXTURES = frozenset({"backends", "browser", "postgres"})
REAL_MODULES = frozenset({"multiprocessing", "subprocess"}) | {
    f"support.{name}"
    for name in ("azure_server", "celery_cluster", "chroma_server", "forked", "helm", "postgres",
                 "prometheus_server", "ragas_in_process", "s3_server", "server_process", "small_model")
}  # fmt: skip
PARTS_FOLDERS = frozenset({
    "api", "assets", "bench", "browser", "cli", "documents", "embedding_jobs", "evaluation", "faults", "generators",
    "indexes", "leak", "mcp_server", "monitoring", "object_home", "parsing", "pipeline", "rendering", "sources",
    "telemetry",
})  # fmt: skip
# Seconds each, of hostile texts, real pages, long files and another model: too long for each save.
PARTS_FILES = frozenset({
    "test_chunking_real_pages.py", "test_growth.py", "test_multilingual.py", "test_patterns.py", "test_pdf_edits.py",
    "test_sections_real_pages.py",
})  # fmt: skip
PARTS_FIXTURES = frozenset({"shared_folders", "unaltered_wiki"})
REAL_MARKS = frozenset({"browser", "load", "xdist_group"})
SERVERS = ("support.mcp_calls", "support.running", "support.stand_in")
_IMPORTED = re.compile(r"^(?:from|import) ([\w.]+)(?: import (\w+))?", re.MULTILINE)

CASES_AT_NIGHT = ("02", "03", "04", "05", "09", "12", "13", "17")
# File, file::test or file::test[parameters, from the start of the name. Each says twice, of another store, door or
# program, what a test of `make test` says, or needs minutes of a processor.
NIGHTLY = (
    # Builds, servers and workers that others start, too.
    "test_bench_built.py::test_some_pages_change",
    "test_bench_command.py::test_stopped_it_keeps",
    "test_build_command.py::test_a_build_killed_at_any_moment",  # test_publishing_survives.py
    "test_celery_cluster.py::test_two_workers_make",
    "test_context_writer.py::test_a_killed_run_repeats_at_most_what_was_in_flight",
    "test_damage.py::test_a_gate_stops_chunks_that_were_lost",  # test_an_override_publishes: a gate stops a candidate
    "test_damage.py::test_an_undamaged_rebuild_passes_every_time",
    # The check `embedded_again` finds other vectors, too: those of another order, by day.
    "test_damage.py::test_damage_is_named_and_not_published[models_mixed-",
    "test_damage.py::test_damage_is_named_and_not_published[no_prefix-",
    "test_damage.py::test_damage_is_named_and_not_published[wrong_prompt_prefix-",
    "test_definitions.py::test_dg_finds_nothing_wrong",
    "test_database_figures.py::test_figures_of_qdrant",
    "test_drain.py::test_a_server_leaves_for_as_long_as_is_configured",
    "test_drain.py::test_all_processes_may_be_told_at_once",
    "test_drain.py::test_a_server_that_leaves_answers_and_says_that_it_is_not_ready[2]",
    "test_mcp_tools.py::test_a_build_ends_with_its_caller",
    "test_replicas_over_store.py::test_replicas_swap_generations",
    "test_report_assets.py::test_what_a_model_judges_is_told_beside_the_run_before",
    "test_fair_turns.py::test_ten_documents_beside_ten_thousand_take_twice_as_long_at_most[1]",
    "test_fair_turns.py::test_real_workers_take_turns",
    "test_shared_builds.py::test_builds_that_are_killed_leave_what_is_published_whole",
    "test_shared_builds.py::test_of_two_builds_that_publish_at_once",
    "test_inbox_watch.py::test_a_killed_run_is_noted_as_failed",
    "test_vector_cache.py::test_a_killed_run_loses_at_most",
    "test_work_once.py",  # test_waiting_builds.py and test_workers_build.py, each with a worker's process
    "test_workers.py::test_a_hangup_reads_the_configuration_again_and_the_server_goes_on_until_it_is_ended[2]",
    # Reports in Dagster's UI; test_report_assets.py reads them, test_reports_served.py looks at them in a browser.
    "test_dagster_ui.py::test_a_report_is_one_file",
    "test_dagster_ui.py::test_the_questions_of_today",
    "test_dagster_ui.py::test_the_report_on_duplicates",
    # How smooth the page is, and the second of two colour schemes.
    "test_answer_card.py::test_the_card_shows_the_answer_with_its_quotes[dark]",
    "test_page_looks.py::test_axe_finds_nothing_in_any_state[dark]",  # dark views: test_views_fit_a_narrow_screen
    "test_page_looks.py::test_nothing_is_wider_than_the_window[1440]",
    "test_page_looks.py::test_nothing_is_wider_than_the_window[2560]",
    "test_page_looks.py::test_nothing_is_wider_than_the_window[768]",
    "test_page_sessions.py::test_five_hundred_turns_stay_smooth",
    "test_page_sources.py::test_a_hostile_page_hurts_nobody[dark]",
    "test_page_sources.py::test_two_thousand_passages_stay_smooth",
    "test_reports_served.py::test_from_the_list_to_two_generations_side_by_side[dark]",
    # Other people's clients of the door that OpenAI's own client asks.
    "test_chat_clients.py::test_langchain_asks_both_ways",
    "test_chat_clients.py::test_llm_in_a_terminal",
    # A reranker that is late, by day; here it fails, too.
    "test_phases.py::test_a_slow_reranker_costs_no_phase_and_a_slow_store_beside_it_does[True]",
    # A thousand questions a second; test_wiring.py stops the database while people ask.
    "test_load.py",
    # By drawn pages and questions of both phases, test_leak_keywords.py.
    "test_leak_differential.py::test_hidden_pages_change_nothing_of_what_keywords_find",
    # Tools that measure and train; near-duplicates of public documentation, measured.
    "test_duplicates_kafka_docs.py",
    "test_load_tool.py::test_a_long_run_tells_memory_over_time",
    "test_load_tool.py::test_a_real_leak_is_found",
    "test_load_faults.py::test_a_server_without_its_sidecar",
    "test_load_tool.py::test_a_server_under_load",
    # A second process, program or size of what a test of the same file proves by day.
    "test_dist.py::test_the_same_commit_gives_the_same_bytes",  # all wheels, twice; by day one is installed
    "test_dense_shards.py::test_parallel_searches",
    "test_executors.py::test_each_kind_opens_with_options_that_dagster_takes[k8s",
    "test_ragas.py::test_a_model_that_is_not_there",
    "test_ragas_model.py::test_a_model_that_writes_garbage",
    "test_keeping.py::test_a_process_that_is_killed_leaves_a_chain_that_holds[sqlite",
    "test_keeping.py::test_several_processes_append_to_one_chain[sqlite",
    "test_real_prometheus.py",  # test_alert_rules.py evaluates each rule
    "test_replicas_over_store.py::test_a_replica_listens_before_it_fetches",
    "test_replicas_over_store.py::test_a_replica_that_takes_the_place",
    # Models, examples and collections of the same way.
    "test_answers_quality.py::test_the_evidence_for_claims_of_scifact_is_shown",  # by day those of SQuAD
    "test_agent_examples.py::test_an_agent_refuses",
    "test_agent_examples.py::test_an_agent_answers_with_the_page[langgraph",
    "test_ragas_model.py::test_a_model_that_writes_garbage_is_named_by_metric[{",
    "test_ragas_model.py::test_a_child_that_is_killed",  # by day it is late
    # Slow proofs of whole ways that are proved by day in parts; where, each line says.
    "test_dist.py::test_a_wheel_in_an_empty_environment",  # test_ask_folder.py: what the base has is enough
    "test_dist.py::test_what_is_packed",  # test_rooms.py::test_what_is_no_code_is_packaged_with_it
    "test_dagster_ui.py::test_jobs_run_from_their_buttons",  # the graph, in the UI; the jobs, in test_jobs.py
    "test_pushed_events.py",  # test_noted_pages.py with one process, test_wiki_events.py over HTTP
    "test_rerank_service.py::test_it_serves_a_model",  # test_rerank_api.py; a process that ends, in the same file
    "test_replicas_over_store.py::test_a_replica_with_a_full_cache",  # test_following.py: a store that is away
    # Generations that come and go, test_swap.py; a server that leaves, test_drain.py; two servers over one database,
    # test_rollbacks_in_databases.py.
    "test_replicas.py",
    "test_supply.py::test_the_scripts_run",  # what they call
    "test_workers.py::test_a_port_in_use",  # what cannot be served, in the same file
    "test_configurations.py::test_a_documented_command_answers",  # test_stdio.py
    "test_upload_progress.py::test_a_long_document_is_told_of_page_by_page",  # stage by stage
    "test_backup.py::test_a_restore_without_the_secret",  # test_alterations.py: a foreign signature
    "test_contradictions_asset.py::test_nothing_is_compared_again",  # test_contradictions_of_changes.py
    "test_ask_folder.py::test_a_server_with_what_the_base",  # the same server in the test's process
    "test_ask_folder.py::test_a_process_that_is_killed",  # by day words answer first; vectors that are known are kept
    "test_ask_folder.py::test_a_bit_turned_after",  # a bit that is turned
    "test_across_sources_build.py::test_an_excerpt_that_is_hidden",  # a whole page that is shown
    "test_book_build.py::test_an_edited_paragraph",  # an edit in one chapter
    "test_build_command.py::test_a_damaged_table_is_made_again[chunks",
    "test_build_command.py::test_a_damaged_table_is_made_again[sections",
    "test_build_command.py::test_a_second_build_is_refused_and_ctrl_c",  # each in one process, in the same file
    "test_build_command.py::test_a_tenant_that_was_rolled_back",  # by the sensor, test_jobs.py
    "test_build_command.py::test_narrower_readers",  # test_narrowing.py
    "test_build_command.py::test_the_instance_of_dagster_home",  # test_run_queue.py: runs of the command are listed
    "test_damage.py::test_a_damaged_candidate_can_be_inspected",  # test_summary.py, and test_narrowing.py: the next one
    "test_documents_build.py::test_what_is_deleted_before_a_build",  # what is deleted after one
    "test_jobs.py::test_a_failed_check_of_the_candidate",  # test_damage.py
    "test_jobs.py::test_the_sensor_publishes_again_when",  # test_plan.py: the third return of the same inputs
    "test_narrowing.py::test_readers_that_come_back",  # the next build that gets through
    "test_noted_pages.py::test_a_storm_and_a_sync_of_the_whole_list_the_space_and_leave_no_note[3600",
    "test_page_facts_build.py::test_a_home_of_an_older_program",  # test_older_home.py
    "test_uploads_command.py::test_a_deleted_document_is_gone",  # over HTTP, test_documents_build.py
    "test_set_history.py::test_an_edit_a_new_page",  # test_changed_pages.py asks what changed
    "test_phases.py::test_all_three_at_once",  # each alone
    "test_drain.py::test_a_second_interrupt",  # test_cli.py: an interrupt; answers that do not come
    "test_drain.py::test_a_server_ends_while_it_opens",  # a thread that cannot be ended
    "test_reload.py::test_a_hangup_reloads",  # test_workers.py: a hangup of the server itself
    "test_leak_http.py::test_a_receipt_that_may_not_be_seen",  # test_leak_receipts.py, and following one, byte by byte
    "test_bench.py::test_a_few_real_documents",  # test_answers_quality.py
    "test_build_command.py::test_one_failing_source",  # test_summary.py
    "test_site_limits.py::test_a_page_that_takes_too_long",  # test_limited_reader.py, test_large_documents.py
    "test_confluence_export_html.py::test_a_page_that_is_too_much",  # the same
    "test_plugins.py::test_the_doctor_names_a_plugin",  # the commands name it
    "test_workers_over_mcp.py",  # test_http.py: the protocol keeps no session; test_workers.py: several processes
    "test_page_receipts.py::test_an_answer_that_was_not_shared",  # to a stranger, a shared one; test_shared_receipts.py
    "test_page_receipts.py::test_two_readers_see_different_things",  # one after the other; two of them, in signing
    "test_page_signing.py::test_another_reader_does_not_get",  # with a sign-in at a provider
    # Inputs of reports whose kind a smaller test has: test_text_marks.py, test_markup_macros.py, test_macros.py,
    # test_pdf_directions.py, test_site_templates.py, test_rst_markup.py, test_composed_files.py.
    *(f"test_public_reports.py::test_the_reported_input_has_the_right_outcome[case_{it}" for it in CASES_AT_NIGHT),
    # Another reader, store, corpus or command; one of each kind runs by day.
    "test_bench_built.py",
    "test_bench_claims.py::test_each_half_has_as_many_claims_of_each_kind_as_it_says[cwiki",
    "test_bench_claims.py::test_each_half_has_as_many_claims_of_each_kind_as_it_says[kafka-docs",
    "test_erasure_in_qdrant.py::test_all_generations_of_a_tenant_go_in_either_layout_and_another_keeps_all[1",
    # By day test_nobody_receives_anything asks every store, and the differential asks the folder and Postgres.
    "test_leak_backends.py::test_what_is_received_is_what_the_folder_gives_without_the_hidden_pages[parts",
    "test_leak_backends.py::test_what_is_received_is_what_the_folder_gives_without_the_hidden_pages[qdrant",
    "test_leak_documents.py::test_no_hidden_document_shows_through_any_door[board",
    "test_leak_documents.py::test_no_hidden_document_shows_through_any_door[hr",
    "test_odd_pages.py::test_a_page_that_lies_is_turned_upright[90",
    "test_plugins.py::test_nothing_runs_without_what_is_to_govern_it[build",
    "test_plugins.py::test_nothing_runs_without_what_is_to_govern_it[mcp",
    "test_plugins.py::test_a_home_in_an_object_store_names_the_plugin_that_it_needs[command0",
    "test_plugins.py::test_an_index_in_a_database_names_the_plugin_that_it_needs[qdrant",
    "test_confluence_economy.py::test_files_and_comments_cost_a_list_each_and_not_a_request_a_page[datacenter",
    "test_confluence_resuming.py::test_a_sync_that_is_killed_goes_on_where_it_stopped[datacenter",
    "test_dense_shards.py::test_recall_against_exact_search_is_nearly_complete[readers0",
    "test_erasure_in_postgres.py::test_an_erasure_killed_in_the_database_is_finished_by_the_next[remove_published",
    "test_erasure_in_qdrant.py::test_an_erasure_that_breaks_off_is_finished_by_the_next[/delete",
    "test_publication_in_postgres.py::test_publishers_are_killed[shared",
    "test_qdrant_publishing.py::test_a_publisher_that_dies_at_any_request_leaves_the_older_generation_or_the_whole_new"
    "_one[tenant",
    "test_qdrant_publishing.py::test_a_quota_warns_at_four_fifths_and_refuses_beyond[quota_vectors",
    "test_qdrant_publishing.py::test_a_rollback_moves_the_alias_and_old_generations_go_when_nobody_reads_them[tenant",
    "test_pictures.py::test_a_hostile_file_costs_a_bound_and_the_next_one_is_rendered[forms within forms",
    "test_limited_reader.py::test_a_page_that_cannot_be_read_within_the_limits_fails_alone[markdown",
    "test_limited_reader.py::test_a_page_that_is_too_much_keeps_its_first_part[headings of HTML",
    "test_limited_reader.py::test_a_page_that_is_too_much_keeps_its_first_part[paragraphs",
    "test_limited_reader.py::test_a_pdf_that_unfolds_is_cut_or_left_out[forms in forms",
    "test_ragas_model.py::test_metrics_that_a_model_judges_are_what_they_are_by_hand[openai",
    "test_verify_receipt.py::test_the_script_alone[rows",
)
# Where all doors are tried, one store is: over every store ask test_leak_backends.py and indexes/contract.
ONE_STORE = {
    **dict.fromkeys(
        (
            "test_attackers.py",
            "test_hostile_pages.py",
            "test_injected_orders.py",
            "test_leak_doors.py",
            "test_leak_http.py",
        ),
        "disk",
    ),
    **dict.fromkeys(("test_backend_away.py", "test_rollbacks_in_databases.py"), "postgres"),
}
# Of a contract that all stores keep, these readers ask the folder by day; the others ask every store.
READERS_OF_ONE_STORE = {"test_reader_view.py": frozenset({"anybody", "board", "staff"})}
# Chroma's server, which takes 6 s of a processor to start, answers what Chroma in process answers.
STORES = frozenset({"chroma", "chroma_server", "disk", "postgres", "qdrant"})

_EVENTS = {"os.fork", "os.posix_spawn", "socket.bind", "socket.connect", "subprocess.Popen"}
outside: list[str] = []
"""What a test did in its own thread that reaches beyond its process."""


def note(event: str, _: object) -> None:
    """Note what reaches beyond this process: an audit hook."""
    if event in _EVENTS and threading.current_thread() is threading.main_thread():
        outside.append(event)


def is_nightly(item: pytest.Item) -> bool:
    """Return whether a test runs at night alone."""
    name = f"{item.path.name}::{item.name}"
    stores = STORES.intersection(_parameters(item))
    is_other_store = bool(stores) and ONE_STORE.get(item.path.name, "") not in {"", *stores}
    if readers := READERS_OF_ONE_STORE.get(item.path.name):
        is_other_store = "disk" not in stores and not readers.isdisjoint(_parameters(item))
    is_other_store |= "chroma_server" in stores and item.path.name != "test_leak_backends.py"
    return is_other_store or item.get_closest_marker("nightly") is not None or name.startswith(NIGHTLY)


def _parameters(item: pytest.Item) -> list[str]:
    callspec = getattr(item, "callspec", None)
    return [value for value in callspec.params.values() if isinstance(value, str)] if callspec else []


def tier_of(item: pytest.Function) -> str:
    """Return the tier of a test, by its file, its marks and its fixtures."""
    tier, fixtures = tier_of_file(item.path), REAL_FIXTURES.union(PARTS_FIXTURES).intersection(item.fixturenames)
    is_marked = any(mark.name in REAL_MARKS for mark in item.iter_markers())
    if tier == "real" or is_marked or fixtures & REAL_FIXTURES or "postgres" in _parameters(item):
        return "real"
    return "parts" if fixtures else tier


@cache
def tier_of_file(path: Path) -> str:
    """Return the tier of a file's tests, or of a folder's, that need no more than it imports at its top."""
    named = _IMPORTED.findall(path.read_text(encoding="utf-8")) if path.suffix == ".py" else []
    imported = {name for module, within in named for name in (module, f"{module}.{within}")}
    if REAL_FOLDERS.intersection(path.parts) or imported & REAL_MODULES:
        return "real"
    has_servers = any(name.startswith(SERVERS) for name in imported)
    return "parts" if has_servers or PARTS_FOLDERS.union(PARTS_FILES).intersection(path.parts) else "unit"


def group_of(item: pytest.Item) -> str:
    """Return what runs in one process: a file, or all files that look at the web page."""
    is_web_page = item.path.parent.name == "browser" and item.path.stem != "test_dagster_ui"
    return "browser" if is_web_page else item.path.stem


def in_order(tiers: Mapping[pytest.Item, str]) -> list[pytest.Item]:
    """Return tests by their tiers, those first that take longest, so that no process ends alone; a file's stay
    together."""
    places: dict[object, int] = {}
    for item, tier in tiers.items():
        place = -1 if item.path.parent.name == "browser" else TIERS.index(tier)
        places[item.path] = min(place, places.get(item.path, place))
    return sorted(tiers, key=lambda item: places[item.path])
