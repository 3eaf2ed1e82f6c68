"""From the lock to the answer: write, verify, cite."""
