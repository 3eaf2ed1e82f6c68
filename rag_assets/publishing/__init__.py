"""From embedded chunks to the moved pointer.

    chunks, vectors ─▶ build_dense ─────────┐
    chunks ─────────▶ build_lexical_index ──┴▶ commit_generation ─▶ check_generation ─▶ publish ─▶ prune

Steps may run in separate processes; their results are under `Store.candidate(tenant)`.
"""
