"""What needs a CUDA GPU to be checked. Each test also runs on a CPU, so that it is known to work before a GPU is there.

``make gpu`` runs the tests on a GPU only; elsewhere they are skipped, and the other tests run them on the CPU.
"""

import pytest
import torch

from transformer.config import ModelConfig
from transformer.data.prepare import DataConfig, PreparedData, prepare
from transformer.device import DeviceName

ON_A_GPU = pytest.param(
    "cuda",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no CUDA GPU")],
)


WEEKLY = (
    "test_batches_of_all_lengths_are_compiled_once[cpu",
    "test_the_loss_and_its_gradient[cpu-compiled",
    "test_the_budget_is_within_10_percent_of_the_measured_memory[cpu-bf16",
    "test_all_gpus_together_train_as_one_process_does[cpu",
)
"""Tests that take up to a minute on a CPU, because it compiles, emulates bfloat16, or starts several processes.

There, `test_compile`, and in tests.transformer.training `test_memory` and `test_distributed`, cover the same in every
run.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a CPU, run these with the tests that are run weekly."""
    for item in items:
        if item.name.startswith(WEEKLY):
            item.add_marker(pytest.mark.soak)


@pytest.fixture(params=["cpu", ON_A_GPU])
def name(request: pytest.FixtureRequest) -> DeviceName:
    """The name of the device to test."""
    torch.manual_seed(0)
    return request.param


@pytest.fixture
def shape() -> ModelConfig:
    """A model whose dimensions every kernel accepts."""
    return ModelConfig(57, 64, 4, 128, 2, dropout=0.0, max_length=64)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    """A prepared corpus of 2,000 pairs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DATA", str(tmp_path_factory.mktemp("data")))
        return prepare(DataConfig("copy", max_train_pairs=2000), 57)
