"""More machines than one: a home in an object store, workers that embed, and Celery's workers that run steps.

Belongs here: the store of a shared home, the queue of embedding jobs, Celery's application, launcher and executor.
Does not belong here: embedding in a build's own process (`rag_assets.embedding_usage`), which executor a run has
(`rag_assets.definitions`), which home a configuration names (`rag_serving.shared_home`).
"""
