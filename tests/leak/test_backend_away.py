"""Questions to a server whose pages are in a database: the sample wiki, end to end, and while the database is away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from built_wiki import WordEmbedder, publish_wiki
from restricted_wiki import TENANT, Wiki
from support.index_backends import Backends
from support.postgres import Postgres, started_pgvector

from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.config.index import Index
from rag_serving.config.loading import Config
from rag_serving.pipeline.pipeline import Pipeline
from rag_serving.records.flags import CACHED
