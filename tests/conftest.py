"""Settings that hold for every test."""

import os

import pytest
import torch
from hypothesis import settings

if not torch.cuda.is_available():
    # torch.compile would start a pool of processes, each of which imports PyTorch, beside those that run the tests.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

if torch.cuda.is_available() or torch.__version__ < "2.10":
    # Autograd can't handle a simulated GPU beside a real one, which is better anyway: see tests/gpu. Before version
    # 2.10, PyTorch can't simulate one.
    collect_ignore = ["repository/test_pretend_gpu.py", "transformer/test_on_a_gpu.py", "chapters/test_on_a_gpu.py"]
else:
    import tests.pretend_gpu  # noqa: F401 - before any backward pass: autograd counts the devices at the first one

# A property is tested by its examples, however long a slow or busy machine takes for one of them.
settings.register_profile("course", deadline=None)
settings.load_profile("course")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the files that have slow tests, so that at the end no worker waits for the last of them."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
