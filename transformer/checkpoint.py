"""Models on disk: weights as safetensors, everything else as JSON beside them; no file can run code when it is read."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from transformer import __version__
from transformer.config import ModelConfig, update_old_settings
from transformer.errors import UserError
from transformer.model import Transformer


class DamagedError(UserError):
    """A checkpoint of which something is missing, or not what was written."""


BEST = "best"
"""The checkpoint with the lowest validation loss so far."""
AVERAGED = "averaged"
"""The checkpoint that `average_checkpoints` makes."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside the file and rename, so that at every moment the old or the new one is there, whole."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def save_checkpoint(
    folder: Path,
    name: str,
    model: Transformer,
    facts: dict[str, Any],
    state: dict[str, Tensor] | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write the weights, then ``name.json``: their file's name and checksum, the model's shape, versions and ``facts``.

    Until the JSON file is replaced, in one step, it names the files from before, which are still there.

    Args:
        state: what else is needed to go on training, in a file of its own.
        dtype: of the weights as they are stored.
    """
    described = {
        "model": asdict(model.config),
        "versions": {"transformer-course": __version__, "torch": torch.__version__},
        **facts,
    }
    kept = []
    weights = {key: weight.to(dtype) for key, weight in _weights(model).items()}
    for kind, tensors in (("weights", weights), ("state", state)):
        if tensors is None:
            continue
        data = _as_bytes(tensors)
        digest = hashlib.sha256(data).hexdigest()
        path = folder / f"{name}-{kind}-{digest[:12]}.safetensors"
        described[kind] = {"file": path.name, "sha256": digest}
        write_atomically(path, data)
        kept.append(path)
    write_atomically(folder / f"{name}.json", json.dumps(described, indent=2).encode())
    for old in folder.glob(f"{name}-*.safetensors"):
        if old not in kept:
            old.unlink()


def weights_as_bytes(model: Transformer, dtype: torch.dtype = torch.float32) -> bytes:
    """The weights as a ``.safetensors`` file holds them."""
    return _as_bytes({key: weight.to(dtype) for key, weight in _weights(model).items()})


def load_checkpoint(folder: Path, name: str) -> tuple[Transformer, dict[str, Any]]:
    """The model, in eval mode on the CPU, in float32, and what was written about it.

    Raises:
        DamagedError: if files are missing, damaged, or do not belong together.
    """
    described = read_settings(folder / f"{name}.json")
    weights = read_tensors(folder, name, "weights")
    try:
        model = Transformer(ModelConfig(**described["model"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"the checkpoint {folder / name}.json cannot be used: {error}") from error
    expected = _weights(model)
    if weights.keys() != expected.keys() or any(weights[k].shape != expected[k].shape for k in expected):
        raise DamagedError(f"the weights of {folder / name} are of another model than {name}.json describes")
    model.load_state_dict(weights, strict=False)
    return model.eval(), described


def read_tensors(folder: Path, name: str, kind: str) -> dict[str, Tensor]:
    """The ``weights`` or the ``state`` of a checkpoint.

    Raises:
        DamagedError: if they are missing, or not what was written.
        UserError: if the file cannot be read just now.
    """
    named = read_json(folder / f"{name}.json").get(kind)
    if not isinstance(named, dict):
        raise DamagedError(f"the checkpoint {folder / name}.json names no {kind}")
    path = folder / Path(str(named.get("file"))).name
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DamagedError(f"the checkpoint {path} is missing") from None
    except OSError as error:
        raise UserError(f"cannot read the checkpoint {path}: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != named.get("sha256"):
        raise DamagedError(f"the checkpoint {path} is damaged: its sha256 is not the one in {name}.json")
    try:
        return safetensors.torch.load(data)
    except SafetensorError as error:
        raise DamagedError(f"the checkpoint {path} cannot be used: {error}") from error


def step_name(step: int) -> str:
    """The name of the checkpoint that a run leaves after so many steps."""
    return f"step-{step:07d}"


def step_checkpoints(folder: Path) -> list[str]:
    """The names of a run's checkpoints by step, oldest first."""
    return sorted(path.stem for path in folder.glob("step-*.json"))


def delete_checkpoint(folder: Path, name: str, kind: str = "") -> None:
    """Delete a checkpoint, or only its ``state``."""
    if not kind:
        (folder / f"{name}.json").unlink(missing_ok=True)
    for path in folder.glob(f"{name}-{kind}*.safetensors"):
        path.unlink()


def mark_damaged(folder: Path, name: str) -> None:
    """Take a damaged checkpoint out of those to go on from; its files stay until its name is used again."""
    path = folder / f"{name}.json"
    if path.exists():
        path.replace(folder / f"{name}.json.damaged")


def remove_partial_files(folder: Path) -> None:
    """Delete the halves of checkpoints that were being written when a training was killed. None may be running."""
    for name in (BEST, "step-"):
        for path in folder.glob(f".{name}*.safetensors-*"):
            path.unlink()


def average_checkpoints(folder: Path, names: Iterable[str]) -> list[str]:
    """Save as `AVERAGED` the model whose weights are the mean of these checkpoints' (§6.1).

    One at a time is in memory, besides the sum, in float32.

    Returns:
        The names.

    Raises:
        UserError: if there are none, or one cannot be read or is of another shape.
    """
    names = list(names)
    if not names:
        raise UserError(f"there is no checkpoint to average in {folder}")
    mean, described = load_checkpoint(folder, names[0])
    total = _weights(mean)
    for name in names[1:]:
        model, other = load_checkpoint(folder, name)
        if other["model"] != described["model"]:
            raise UserError(f"{name} is of another shape than {names[0]}")
        for key, weight in _weights(model).items():
            total[key] += weight
    for weight in total.values():
        weight /= len(names)
    save_checkpoint(folder, AVERAGED, mean, {"averaged": names, "last_step": step_checkpoints(folder)[-1:]})
    return names


def default_checkpoint(folder: Path) -> str:
    """The one to translate with: `AVERAGED`, if the training did not go on since it was made, or else `BEST`."""
    path, last = folder / f"{AVERAGED}.json", step_checkpoints(folder)[-1:]
    return AVERAGED if path.exists() and read_json(path).get("last_step", last) == last else BEST


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        DamagedError: if there is none.
        UserError: if the file cannot be read just now.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise DamagedError(f"there is no {path.name} in {path.parent}: is that a run folder?") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise DamagedError(f"cannot read {path}: {error}") from None
    if not isinstance(value, dict):
        raise DamagedError(f"{path} does not hold a JSON object")
    return value


def read_settings(path: Path) -> dict[str, Any]:
    """Read a ``recipe.json`` or a checkpoint's JSON file, translating the setting names of the first edition.

    Raises:
        DamagedError, UserError: as `read_json`.
    """
    return update_old_settings(read_json(path))


def _as_bytes(tensors: dict[str, Tensor]) -> bytes:
    return safetensors.torch.save({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()})


def _weights(model: Transformer) -> dict[str, Tensor]:
    """Each parameter once, also where several names share it."""
    return {name: parameter.data for name, parameter in model.named_parameters()}
