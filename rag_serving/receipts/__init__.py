"""Receipts: making, storing, showing and proving them."""
