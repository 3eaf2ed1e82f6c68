"""The reranker sidecar: a cross-encoder behind HTTP, on the machine that has the GPU."""
