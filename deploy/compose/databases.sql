-- Run once by the Postgres image, when its data folder is empty: Dagster's database beside Citelock's.
CREATE DATABASE dagster;
\connect citelock
CREATE EXTENSION IF NOT EXISTS vector;
