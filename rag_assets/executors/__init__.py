"""Where the steps of `ingest` and `publish` run: Dagster's own executors, put together as the configuration says."""
