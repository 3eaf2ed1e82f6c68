"""Report overdue sources and failing builds: what is alerted, and how."""
