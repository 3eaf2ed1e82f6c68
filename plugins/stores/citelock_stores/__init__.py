"""Published generations in PostgreSQL and Qdrant: entry points of `citelock.stores`. Only `publishing` and `bench`
import what builds indexes: a machine that only serves lacks it."""
