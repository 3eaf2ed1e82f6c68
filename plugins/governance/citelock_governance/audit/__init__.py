"""The audit log: who did what, in a chain of signed rows for each tenant."""
