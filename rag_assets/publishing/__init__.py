"""From embedded chunks to the moved pointer.

    chunks, vectors ─▶ build_dense ─────────┐
    chunks ─────────▶ build_lexical_index ──┴▶ commit_generation ─▶ check_generation ─▶ publish ─▶ prune

Belongs here: building indexes, committing, checking, repairing and publishing a generation.
Does not belong here: Dagster, asking a candidate the gold set (`evaluation.candidate`), reading an index.

Steps may run in separate processes; what one leaves for the next lies under `Store.candidate(tenant)`.
"""
