"""AsciiDoc, read into HTML: the subset that documentation is written in."""
