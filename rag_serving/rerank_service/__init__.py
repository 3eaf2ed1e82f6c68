"""The reranker sidecar: a cross-encoder behind HTTP, on the machine that has the GPU.

Belongs here: the model, batches over requests, the API. Imports torch only to open a model.
Does not belong here: artifacts, Dagster, the sidecar's client (`models.reranker_client`), its command
(`rerank_service.command`).
"""
