"""Embedding models: local ONNX weights, and servers."""
