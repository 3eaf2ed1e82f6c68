"""`citelock readers`: who may read which page."""
