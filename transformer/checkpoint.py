"""Checkpoints: weights as safetensors, metadata as JSON. Unlike a pickle, neither can execute code when it is read."""

import hashlib
import json
import math
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from transformer import __version__
from transformer.config import DROPOUTS, ModelConfig, TrainingConfig, with_defaults
from transformer.errors import UserError
from transformer.files import InvalidFileError, convert, read_bytes, read_json, read_rows, write_atomically
from transformer.model import Transformer
from transformer.quantization import check_not_quantized

BEST = "best"
"""The checkpoint with the lowest validation loss so far."""
AVERAGED = "averaged"
"""The checkpoint that `average_checkpoints` writes."""
PARTIAL_FILE_AGE = 3600
"""A temporary file that hasn't been modified for this many seconds is no longer being written."""
START_AGAIN = (
    "start again in another folder (--run), with a lower --training.learning-rate-factor or a higher "
    "--training.warmup-steps"
)
"""What to do if training diverges. Resuming with other settings won't help, because the weights are already useless."""


@dataclass(frozen=True)
class InitialModelReference:
    """The model whose weights a training run started from."""

    name: str
    sha256: str


FIELD_TYPES: dict[str, Any] = {
    "description": str | None,
    "data": dict[str, Any],  # converted by `DataConfig.from_dict`
    "model": ModelConfig,
    "training": TrainingConfig,
    "initial_model": InitialModelReference,
    "text_sha256": str | None,
    "versions": dict[str, str],
    "metrics": dict[str, float],
    "progress": dict[str, float],
    "scaler": dict[str, float],
    "averaged": list[str],
    "last_checkpoint": str | None,
    "weights": dict[str, str],
    "state": dict[str, str],
}
"""The types of the values in a ``recipe.json`` and in a checkpoint's JSON file."""


def save_checkpoint(
    folder: Path,
    name: str,
    model: Transformer,
    metadata: dict[str, Any],
    state: dict[str, Tensor] | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write the weights, and then ``name.json`` with their file name and checksum, the model's settings and versions.

    The JSON file is replaced atomically. Until then it refers to the files of the previous checkpoint, which
    still exist.

    Args:
        folder: the run folder.
        name: the name of the checkpoint; an earlier one of this name is replaced.
        model: the model to save.
        metadata: more values for the JSON file.
        state: more tensors, which training needs to resume; they are saved in a separate file.
        dtype: the dtype of the weights in the file.

    Raises:
        UserError: if the model has int8 weights.
    """
    check_not_quantized(model)
    contents = {
        "model": asdict(model.config),
        "versions": {"transformer-course": __version__, "torch": torch.__version__},
        **metadata,
    }
    kept = []
    weights = {key: weight.to(dtype) for key, weight in _weights(model).items()}
    for kind, tensors in (("weights", weights), ("state", state)):
        if tensors is None:
            continue
        data = _as_bytes(tensors)
        digest = hashlib.sha256(data).hexdigest()
        path = folder / f"{name}-{kind}-{digest[:12]}.safetensors"
        contents[kind] = {"file": path.name, "sha256": digest}
        write_atomically(path, data)
        kept.append(path)
    write_atomically(folder / f"{name}.json", json.dumps(contents, indent=2).encode())
    for old in _tensor_files(folder, name):
        if old not in kept:
            old.unlink()


def load_checkpoint(folder: Path, name: str) -> tuple[Transformer, dict[str, Any]]:
    """Load a checkpoint.

    Returns:
        The model, in eval mode and in float32 on the CPU, and the contents of the JSON file.

    Raises:
        InvalidFileError: if files are missing or damaged, or don't belong together.
        UserError: if a file exists but can't be read, such as one without read permission.
    """
    metadata, weights = _read_metadata_and_weights(folder, name)
    config = convert(metadata.get("model"), ModelConfig, f"{folder / name}.json: model")
    mismatch = InvalidFileError(f"the weights of {folder / name} do not fit the model that {name}.json describes")
    if sum(weight.numel() for weight in weights.values()) != config.n_parameters:  # before any memory is allocated
        raise mismatch
    model = Transformer(config)
    expected = _weights(model)
    if weights.keys() != expected.keys() or any(weights[k].shape != expected[k].shape for k in expected):
        raise mismatch
    if not all(weight.is_floating_point() for weight in weights.values()):
        raise InvalidFileError(f"the weights of {folder / name} are not all floating-point numbers")
    model.load_state_dict(weights, strict=False)
    return model.eval(), metadata


def _read_metadata_and_weights(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the JSON file and the weights of a checkpoint; read both again if training replaces them meanwhile."""
    while True:
        metadata = read_settings(folder / f"{name}.json")
        try:
            weights, error = read_tensors(folder, name, "weights"), None
        except InvalidFileError as missing_or_damaged:
            weights, error = {}, missing_or_damaged
        if read_settings(folder / f"{name}.json") != metadata:
            continue
        if error:
            raise error
        return metadata, weights


def read_tensors(folder: Path, name: str, kind: str) -> dict[str, Tensor]:
    """Read the ``weights`` or the ``state`` of a checkpoint.

    Raises:
        InvalidFileError: if they are missing or damaged.
        UserError: if the file exists but can't be read, such as one without read permission.
    """
    entry = read_json(folder / f"{name}.json").get(kind)
    if not isinstance(entry, dict):
        raise InvalidFileError(f"the checkpoint {folder / name}.json has no {kind}")
    path = folder / Path(str(entry.get("file"))).name
    data = read_bytes(path, f"the checkpoint {path}")
    if hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise InvalidFileError(f"the checkpoint {path} is damaged: its sha256 is not the one in {name}.json")
    try:
        return safetensors.torch.load(data)
    except SafetensorError as error:
        raise InvalidFileError(f"cannot use the checkpoint {path}: {error}") from error


def step_name(step: int, stopped: bool = False) -> str:
    """Return the name of the checkpoint that a run saves after ``step`` steps.

    Args:
        stopped: whether it is saved only because the run is being stopped, not because it is due.
    """
    return f"{'stopped' if stopped else 'step'}-{step:07d}"


def step_checkpoints(folder: Path) -> list[str]:
    """Return the names of the checkpoints that a run has saved at regular intervals, oldest first.

    They are the same whether the run was interrupted or not, and so is their average.
    """
    return _by_step(_checkpoints(folder, "step"))


def stopped_checkpoints(folder: Path) -> list[str]:
    """Return the names of the checkpoints that a run has saved because it was stopped; there is at most one."""
    return _by_step(_checkpoints(folder, "stopped"))


def _checkpoints(folder: Path, kind: str) -> list[str]:
    """Return only names made by `step_name`: ``step-30000.scores.json`` may hold the results on a test set."""
    names = (path.stem for path in folder.glob(f"{kind}-*.json"))
    return [name for name in names if re.fullmatch(rf"{kind}-\d+", name)]


def training_checkpoints(folder: Path) -> list[str]:
    """Return the names of a training run's checkpoints, oldest first; only the last few have a state to resume from."""
    return _by_step([*step_checkpoints(folder), *stopped_checkpoints(folder)])


def _by_step(names: Iterable[str]) -> list[str]:
    """Sort the names of checkpoints by step, the number at their end."""
    return sorted(names, key=lambda name: (name.rpartition("-")[2].zfill(20), name))


def delete_checkpoint(folder: Path, name: str, kind: str = "") -> None:
    """Delete a checkpoint, or only its ``state``."""
    if not kind:
        (folder / f"{name}.json").unlink(missing_ok=True)
    for path in _tensor_files(folder, name, kind):
        path.unlink()


def _tensor_files(folder: Path, name: str, kind: str = "") -> list[Path]:
    """Return the files with the tensors of a checkpoint, or only its ``weights`` or its ``state``."""
    return [path for one in ([kind] if kind else ["weights", "state"]) for path in folder.glob(f"{name}-{one}-*")]


def mark_damaged(folder: Path, name: str) -> None:
    """Rename a damaged checkpoint's JSON file, so that no run resumes from it."""
    path = folder / f"{name}.json"
    if path.exists():
        path.replace(folder / f"{name}.json.damaged")


def remove_partial_files(folder: Path) -> None:
    """Delete what training processes that were killed while writing have left. The caller must hold the folder's lock.

    These are temporary files, and the tensors of checkpoints whose JSON file was not written any more. Temporary files
    of ``transformer average`` and ``transformer evaluate``, which don't hold the lock, may still be in use: they stay
    until they haven't been modified for `PARTIAL_FILE_AGE` seconds.
    """
    for path in folder.glob(".*.*-????????"):  # the names that `write_atomically` gives them
        with suppress(FileNotFoundError):  # it has just been renamed
            is_training = path.name.startswith((".step-", ".stopped-"))
            if is_training or path.stat().st_mtime < time.time() - PARTIAL_FILE_AGE:
                path.unlink()
    for path in folder.glob("*.safetensors"):
        name = re.match(r"(step|stopped)-\d+(?=-(weights|state)-)", path.name)
        if name and not any(folder.glob(f"{name[0]}.json*")):  # tensors of a damaged checkpoint stay, too
            path.unlink()


def average_checkpoints(folder: Path, names: Iterable[str]) -> None:
    """Save the mean of the weights of several checkpoints as `AVERAGED` (§6.1).

    The sum is in float32. Apart from it, only one checkpoint at a time is in memory.

    Raises:
        InvalidFileError: if one is missing, perhaps because training has just deleted it, or is damaged.
        UserError: if there are none, or if one can't be read or has another architecture.
    """
    names = list(names)
    if not names:
        raise UserError(f"there is no checkpoint to average in {folder}")
    mean, metadata = load_checkpoint(folder, names[0])
    total = _weights(mean)
    for name in names[1:]:
        model, other = load_checkpoint(folder, name)
        if _architecture(other) != _architecture(metadata):
            raise UserError(f"{name} and {names[0]} have different architectures")
        for key, weight in _weights(model).items():
            total[key] += weight
        del model, weight  # before the next one is loaded
    for weight in total.values():
        weight /= len(names)
    save_checkpoint(folder, AVERAGED, mean, {"averaged": names, "last_checkpoint": _last_checkpoint(folder)})


def default_checkpoint(folder: Path) -> str:
    """Return the checkpoint to translate with: `BEST`, or `AVERAGED`, if training wasn't resumed after averaging.

    Raises:
        InvalidFileError: if the folder has neither, because training hasn't saved one yet or has diverged.
    """
    if not any((folder / f"{name}.json").exists() for name in (AVERAGED, BEST)):
        if not (folder / "recipe.json").exists():
            raise InvalidFileError(f"{folder} is not a run folder: it has no {BEST}.json")
        losses = [row["valid_loss"] for row in read_rows(folder / "metrics.jsonl", ["valid_loss"])]
        if losses and not any(map(math.isfinite, losses)):
            raise InvalidFileError(
                f"{folder} has no model, because its training diverged and no validation loss was a finite number: "
                f"{START_AGAIN}"
            )
        raise InvalidFileError(
            f"{folder} has no model yet: training saves it at its first validation (--training.validate-every). "
            "Let it continue until then; if it was stopped, run the same `transformer train` command again"
        )
    path, last = folder / f"{AVERAGED}.json", _last_checkpoint(folder)
    if not path.exists():
        return BEST
    is_newest = read_json(path).get("last_checkpoint", last) == last
    return AVERAGED if is_newest or not (folder / f"{BEST}.json").exists() else BEST


def _architecture(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model's settings except those that may change when a run is resumed."""
    return {key: value for key, value in metadata["model"].items() if key not in (*DROPOUTS, "attention")}


def _last_checkpoint(folder: Path) -> str | None:
    names = training_checkpoints(folder)
    return names[-1] if names else None


def read_settings(path: Path, required: Iterable[str] = ()) -> dict[str, Any]:
    """Read a ``recipe.json`` or a checkpoint's JSON file, and check the values that the course uses.

    Settings that were added after the file was written get their defaults.

    Args:
        path: the file.
        required: keys that it must have.

    Raises:
        InvalidFileError: if the file is missing, is not JSON, lacks a key, or has a value of the wrong type or out of
            range.
        UserError: if the file exists but can't be read, such as one without read permission.
    """
    values = read_json(path)
    for name in required:
        if name not in values:
            raise InvalidFileError(f"{path}: {name} is missing")
    values = with_defaults(values)
    for name, expected in FIELD_TYPES.items():
        if name in values:
            convert(values[name], expected, f"{path}: {name}")
    return values


def _as_bytes(tensors: dict[str, Tensor]) -> bytes:
    return safetensors.torch.save({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()})


def _weights(model: Transformer) -> dict[str, Tensor]:
    """Return each parameter once, even if it has several names because it is shared."""
    return {name: parameter.data for name, parameter in model.named_parameters()}
