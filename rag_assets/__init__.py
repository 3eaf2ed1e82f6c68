"""Citelock's writing room: a Dagster project that turns pages into published generations."""
