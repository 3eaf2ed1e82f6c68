"""Reports for analysts: content, HTML, files."""
