"""Celery: the application of its workers, the launcher of runs, the executor of steps."""
