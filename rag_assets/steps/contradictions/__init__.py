"""What a wiki says wrong about itself: statements that differ, links that lead nowhere, pages that nobody looks after.

Belongs here: finding it in tables of chunks, sections and pages. Does not belong here: reports (`evals.reports`), the
command (`rag_assets.build.linting`), what a unit gives as a value (`rag_serving.answering.comparing`).
"""
