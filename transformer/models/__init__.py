"""Pretrained models by name. Each is a run folder, reduced to what is needed to use it, with a model card.

The recipe of the same name trains a model again; in the repository, ``make models`` trains all of them.
"""

import os
from pathlib import Path

from transformer.checkpoint import BEST
from transformer.device import DeviceName, InferencePrecision, choose_device
from transformer.errors import UserError, quote, suggest
from transformer.recipes import RECIPES
from transformer.translator import Translator

MODELS_FOLDER = Path(__file__).parent


def list_models() -> list[str]:
    """Return the names of the pretrained models."""
    return sorted(path.parent.name for path in MODELS_FOLDER.glob(f"*/{BEST}.json"))


def find_model(name: str | Path) -> Path:
    """Return the folder of a pretrained model, or of a run.

    A string that is the name of a pretrained model always means that model. For a run folder of the same name, pass a
    `Path`, or write ``"./pocket-small"``.

    Raises:
        UserError: if there is neither a pretrained model of this name nor such a folder.
    """
    if not isinstance(name, str | Path):
        raise UserError(f"a model is a name or a folder; got {quote(name)}")
    if isinstance(name, str) and name in list_models():
        return MODELS_FOLDER / name
    if not os.path.isdir(name):  # also false for a name that no file can have
        if name in RECIPES:
            raise UserError(
                f"{name} is a recipe, not a model: `transformer train {name}` trains it into runs/{name}; "
                f"or use a pretrained model: {', '.join(list_models())}"
            )
        hint = suggest(str(name), list_models())
        raise UserError(f"there is no run folder {name}, and no pretrained model of this name; {hint}")
    return Path(name)


def load_model(name: str | Path, device: DeviceName = "auto", precision: InferencePrecision = "auto") -> Translator:
    """Load a pretrained model, or the model of a run, ready to translate.

    Args:
        name: name of a pretrained model (see `list_models`), or a run folder.
        device: where to run; ``"auto"`` chooses the fastest device available.
        precision: number format of the matrix products; ``"auto"`` is ``"bf16"`` or ``"fp16"`` on a CUDA GPU, and
            ``"fp32"``, the most accurate, elsewhere. ``"int8"`` translates nearly as well, and faster on a CPU with
            AVX512-VNNI instructions.

    Raises:
        UserError: if there is no such model, its files are damaged, or there is no such device or precision.
    """
    return Translator.load(find_model(name), choose_device(device, precision))
