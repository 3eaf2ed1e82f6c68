"""The web page as files: its bundle and the routes that serve it."""
