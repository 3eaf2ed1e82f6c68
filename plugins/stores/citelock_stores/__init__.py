"""Published generations in PostgreSQL and Qdrant: entry points of `citelock.stores`.

Belongs here: databases, their command and check. Does not belong here: generations on disk (`rag_serving.indexes`).

Only `publishing` and `bench` import what builds indexes: a machine that only serves lacks it.
"""
