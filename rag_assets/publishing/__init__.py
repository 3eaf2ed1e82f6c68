"""From embedded chunks to the moved pointer: one function for each asset of the publish job.

    chunks, vectors ─▶ dense_index ─┐
    chunks ─────────▶ lexical_index ─┴▶ generation ─▶ check_generation ─▶ evaluate_candidate ─▶ publish ─▶ prune

Belongs here: the steps as the assets call them.
Does not belong here: Dagster, how indexes are built (`rag_serving.indexes.build`).

Steps may run in separate processes; what one leaves for the next lies under `Store.candidate(tenant)`.
"""

from rag_assets.publishing.checks import CheckResult, Coverage, check_generation
from rag_assets.publishing.evaluation import Evaluated, evaluate_candidate, quality_results
from rag_assets.publishing.publish import Pruned, Publication, PublishError, discard_failed, prune, publish
from rag_assets.publishing.remade import checks_made_again
from rag_serving.indexes.arrange import BuildError
from rag_serving.indexes.build import DenseBuild, LexicalBuild
from rag_serving.indexes.build import build_dense as dense_index
from rag_serving.indexes.build import build_lexical_index as lexical_index
from rag_serving.indexes.build import commit_generation as generation

__all__ = [
    "BuildError",
    "CheckResult",
    "Coverage",
    "DenseBuild",
    "Evaluated",
    "LexicalBuild",
    "Pruned",
    "Publication",
    "PublishError",
    "check_generation",
    "checks_made_again",
    "dense_index",
    "discard_failed",
    "evaluate_candidate",
    "generation",
    "lexical_index",
    "prune",
    "publish",
    "quality_results",
]
