"""Evaluation: gold sets, test collections, metrics, thresholds."""
