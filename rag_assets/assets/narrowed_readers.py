"""Publish that fewer people may read a page, whatever step of `publish` failed.

Belongs here: publishing that at once, in the process of the step. Does not belong here: how
(`rag_assets.publishing.narrowing`).
"""

import dagster as dg

from rag_assets.assets.run_queue import PARTITION
from rag_assets.publishing import narrowing
from rag_serving.config.loading import ConfigError


@dg.failure_hook(required_resource_keys={"installation"})
def narrow_readers(context: dg.HookContext) -> None:
    """Publish what is published for those alone who still may read it."""
    run = context.instance.get_run_by_id(context.run_id)
    tenant = run.tags.get(PARTITION, "") if run else ""
    try:
        config = context.resources.installation.config()
    except ConfigError:  # the step says so
        return
    if tenant in config.tenants:
        narrowing.narrow_readers(config, tenant, context.log.warning, context.run_id)
