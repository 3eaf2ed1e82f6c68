"""What every test shares: helpers that stand beside this file can be imported, and no test is timed by hypothesis."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
