"""Settings that hold for every test."""

from hypothesis import settings

import tests.pretend_gpu  # noqa: F401 - before any backward pass: autograd counts the devices at the first one

# A property is tested by its examples, however long a slow or busy machine takes for one of them.
settings.register_profile("course", deadline=None)
settings.load_profile("course")
