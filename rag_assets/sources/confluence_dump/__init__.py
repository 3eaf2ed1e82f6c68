"""A dump: REST v1 page envelopes as files."""
