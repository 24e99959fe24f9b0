"""Hypothesis without its deadline: how fast an example runs says more about the machine."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
