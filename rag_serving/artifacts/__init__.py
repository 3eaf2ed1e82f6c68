"""Artifact files: schemas, paths, manifests, digests, and the secret that signs them."""
