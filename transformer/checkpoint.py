"""Models on disk: weights as safetensors, everything else as JSON beside them; no file can run code when it is read."""

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError

from transformer import __version__
from transformer.errors import UserError
from transformer.model import ModelConfig, Transformer


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


def save_checkpoint(folder: Path, name: str, model: Transformer, facts: dict[str, Any]) -> None:
    """Write the weights, then ``name.json``: their file's name and checksum, the model's shape, versions and ``facts``.

    Until the JSON file is replaced, in one step, it names the weights from before, which are still there.
    """
    weights = {key: tensor.detach().cpu().contiguous() for key, tensor in _weights(model).items()}
    data = safetensors.torch.save(weights)
    digest = hashlib.sha256(data).hexdigest()
    path = folder / f"{name}-{digest[:12]}.safetensors"
    described = {
        "model": asdict(model.config),
        "weights": path.name,
        "sha256": digest,
        "versions": {"transformer-course": __version__, "torch": torch.__version__},
        **facts,
    }
    write_atomically(path, data)
    write_atomically(folder / f"{name}.json", json.dumps(described, indent=2).encode())
    for old in folder.glob(f"{name}-*.safetensors"):
        if old != path:
            old.unlink()


def load_checkpoint(folder: Path, name: str) -> tuple[Transformer, dict[str, Any]]:
    """The model, in eval mode on the CPU, and what was written about it.

    Raises:
        UserError: if files are missing, damaged, or do not belong together.
    """
    described = read_json(folder / f"{name}.json")
    path = folder / Path(str(described.get("weights"))).name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the checkpoint {path}: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != described.get("sha256"):
        raise UserError(f"the checkpoint {path} is damaged: its sha256 is not the one in {name}.json. Train again")
    try:
        model = Transformer(ModelConfig(**described["model"]))
        weights = safetensors.torch.load(data)
        expected = _weights(model)
        if weights.keys() != expected.keys() or any(weights[k].shape != expected[k].shape for k in expected):
            raise UserError(f"the weights in {path} are of another model than {name}.json describes")
        model.load_state_dict(weights, strict=False)
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        raise UserError(f"the checkpoint {path} cannot be used: {error}") from error
    return model.eval(), described


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        UserError: if there is none.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no {path.name} in {path.parent}: is that a run folder?") from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path} does not hold a JSON object")
    return value


def _weights(model: Transformer) -> dict[str, torch.Tensor]:
    """Each parameter once, also where several names share it."""
    return {name: parameter.data for name, parameter in model.named_parameters()}
