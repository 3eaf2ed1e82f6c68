"""The reranker sidecar: a cross-encoder behind HTTP, on the machine that has the GPU.

Belongs here: the model, batches over requests, the API. Imports torch only where a model is opened.
Does not belong here: artifacts, Dagster, who asks the sidecar (`models.reranker_client`), its command
(`rerank_service.command`).
"""
