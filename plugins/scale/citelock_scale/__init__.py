"""More machines than one: a home in an object store, workers that embed, and Celery's workers that run steps."""
