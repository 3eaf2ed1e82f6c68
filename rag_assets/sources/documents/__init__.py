"""Documents: files of a folder, and what people upload."""
