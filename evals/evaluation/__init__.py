"""How good it is: gold sets, test collections, metrics, thresholds."""
