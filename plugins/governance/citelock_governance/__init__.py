"""The audit log, erasure, keys of machines, budgets and personal data: what a company has to answer for."""
