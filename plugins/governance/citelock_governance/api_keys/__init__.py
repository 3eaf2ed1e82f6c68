"""Keys of machines: made, listed and revoked by `citelock keys`, looked up at each request."""
