"""What a company has to answer for: the audit log, and what else governs who asks and what is kept."""
