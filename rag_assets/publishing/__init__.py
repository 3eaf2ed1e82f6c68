"""From embedded chunks to the moved pointer.

    chunks, vectors ─▶ build_dense ─────────┐
    chunks ─────────▶ build_lexical_index ──┴▶ commit_generation ─▶ check_generation ─▶ publish ─▶ prune

Belongs here: building indexes, committing, checking, repairing and publishing a generation.
Does not belong here: Dagster, running the gold set on a candidate (`evaluation.candidate`), reading an index.

Steps may run in separate processes; their results are under `Store.candidate(tenant)`.
"""
