"""A space export: the zip that an administrator downloads."""
