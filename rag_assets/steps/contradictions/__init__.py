"""A wiki's faults: contradictory statements, dead links, neglected pages.

Belongs here: detecting them in tables of chunks, sections and pages. Does not belong here: reports (`evals.reports`),
the command (`rag_assets.build.linting`), the value of a unit (`rag_serving.answering.comparing`).
"""
