"""`citelock build` and the runs it starts."""
