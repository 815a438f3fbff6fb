"""Settings that hold for every test."""

from hypothesis import settings

# A property is tested by its examples, however long a slow or busy machine takes for one of them.
settings.register_profile("course", deadline=None)
settings.load_profile("course")
