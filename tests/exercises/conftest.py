"""Settings for the tests of the exercises."""

from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest


@pytest.fixture(scope="session", autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder instead of the user's own: nothing that is graded here counts as the progress of whoever runs the tests.

    Commands that run in processes of their own use it, too.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield platformdirs.user_data_path("transformer-course")
