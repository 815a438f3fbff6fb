"""Trained models that come with the course, by name: each is a run folder with what is needed to use it, and a card.

The recipe of the same name trains each of them again; ``make models`` does so with all.
"""

import difflib
from pathlib import Path

from transformer.checkpoint import BEST
from transformer.device import DeviceName, Precision, choose_device
from transformer.errors import UserError
from transformer.translator import Translator

FOLDER = Path(__file__).parent


def shipped() -> list[str]:
    """The names of the models that are here."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{BEST}.json"))


def find_model(name: str | Path) -> Path:
    """The folder of a model: of one that comes with the course, or a run's own.

    A name of the course's always means the course's model; a run folder of the same name is written ``./pocket-small``.

    Raises:
        UserError: if it is neither.
    """
    if str(name) in shipped():
        return FOLDER / name
    if not Path(name).is_dir():
        near = difflib.get_close_matches(str(name), shipped(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"the course has {', '.join(shipped())}"
        raise UserError(f"there is no run folder {name}; `transformer train` makes one. And no such model: {hint}")
    return Path(name)


def load_model(name: str | Path, device: DeviceName = "auto", precision: Precision = "auto") -> Translator:
    """A model that comes with the course, or a run's, ready to translate.

    Args:
        name: the model's name, or the run folder.
        device: where to run: ``"auto"`` takes the fastest there is.
        precision: of the matrix products: ``"auto"`` takes the fastest there, ``"fp32"`` rounds least.

    Raises:
        UserError: if there is no such model, or its files are damaged.
    """
    return Translator.load(find_model(name), choose_device(device, precision))[0]
