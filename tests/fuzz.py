"""Fuzzing: damaged files and odd command lines must give a result or a clear message, quickly.

``python -m tests.fuzz --inputs 100000`` makes that many inputs and lists those that fail; ``--seed`` and ``--first``
repeat one. A weekly workflow runs it, and `tests.repository.test_fuzz` runs a small part of it.
"""

import argparse
import contextlib
import dataclasses
import functools
import hashlib
import inspect
import io
import json
import multiprocessing
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from ctypes import c_long
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from transformer import commands
from transformer.cli import main
from transformer.command_line import RecipeCommand, run_command
from transformer.data.corpora import find_corpus
from transformer.errors import UserError
from transformer.models import load_model
from transformer.training.run_folder import read_log, read_metrics, read_sessions

SECONDS = 20
"""What takes longer than this hangs. Nothing here needs one second, but the machine may be busy."""

ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", " ",
    "a" * 10_000, "\ud83d", "\x00", "\x1b[31m", "../../etc/passwd", "/dev/zero", "en-de-fr", "<script>", "１２", [], {},
    [[]], [None], {"": None}, functools.reduce(lambda inner, _: [inner], range(900), None),
]  # fmt: skip
"""Values that programs don't expect."""


# Damage ---------------------------------------------------------------------------------------------------------------


def damage_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip bits, or cut, repeat, insert or overwrite a piece."""
    where, length = rng.randrange(len(data) + 1), rng.choice([1, 2, 8, 100, len(data)])
    piece = data[where : where + length]
    kind = rng.choice(["bits", "bits", "cut", "cut off", "repeat", "insert", "zeros"])
    if kind == "bits":
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 10])):
            damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(damaged)
    replacement = {
        "cut": b"",
        "repeat": piece * rng.choice([2, 3, 50]) if len(piece) < 1000 else piece + piece,
        "insert": rng.randbytes(rng.choice([1, 4, 100])) + piece,
        "zeros": bytes(len(piece)),
    }
    return data[:where] if kind == "cut off" else data[:where] + replacement[kind] + data[where + length :]


def damage_json(value: Any, rng: random.Random) -> Any:
    """Replace, delete, rename or add something at a random place of a JSON document."""
    places = [place for place in _places(value) if place]
    if not places or rng.random() < 0.02:
        return rng.choice(ODD)
    *path, last = rng.choice(places)
    holder = functools.reduce(lambda inner, key: inner[key], path, value)
    kind = rng.choice(["replace"] * 6 + ["delete", "rename", "add", "swap"])
    if kind == "replace":
        holder[last] = rng.choice(ODD)
    elif kind == "swap":
        holder[last] = functools.reduce(lambda inner, key: inner[key], rng.choice(places), value)
    elif kind == "delete":
        del holder[last]
    elif isinstance(holder, dict):
        holder[rng.choice(["", "x", "weights", "file", "steps", "\ud83d"])] = (
            holder.pop(last) if kind == "rename" else rng.choice(ODD)
        )
    else:
        holder.insert(last, rng.choice(ODD))
    return value


def _places(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a JSON document, which may be nested deeply."""
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while waiting:
        path, value = waiting.pop()
        yield path
        entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        waiting += [((*path, key), entry) for key, entry in entries]


def damage(path: Path, rng: random.Random) -> None:
    """Damage a file: one of JSON mostly in its values, any other in its bytes."""
    data = path.read_bytes()
    if path.suffix in (".json", ".jsonl") and rng.random() < 0.8:
        documents = data.splitlines() if path.suffix == ".jsonl" else [data]
        chosen = rng.randrange(len(documents))
        for _ in range(rng.choice([1, 1, 1, 3])):
            with contextlib.suppress(ValueError, RecursionError):  # it would contain itself, or be nested too deeply
                documents[chosen] = json.dumps(damage_json(json.loads(documents[chosen]), rng)).encode()
        path.write_bytes(b"".join(document + b"\n" for document in documents))
    else:
        path.write_bytes(damage_bytes(data, rng))


# What is damaged, and who reads it ------------------------------------------------------------------------------------


def make_files(folder: Path) -> None:
    """Train a tiny model in the folder ``run``, export it to ``model``, and write a corpus with its manifest."""
    tiny = "--model.d-model 8 --model.n-heads 2 --model.d-ff 8 --model.n-layers 1 --training.steps 2"
    tiny += " --training.validate-every 1 --training.checkpoint-every 1 --training.validation-sentences 2"
    tiny += " --training.warmup-steps 1 --training.batch-tokens 100 --training.log-every 1 --training.average-steps 0"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(["train", "copy", "--run", str(folder / "run"), "--device", "cpu", *tiny.split()])
        main(["export", str(folder / "run"), str(folder / "model"), "--device", "cpu"])
    lines = [f"This is sentence number {i}, says Ann.\tDas ist Satz Nummer {i}, sagt Ann." for i in range(50)]
    (folder / "corpus.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    part = [{"en": "corpus.tsv:1", "de": "corpus.tsv:2"}]
    manifest = {"languages": ["en", "de"], "splits": {"train": part, "test": part}, "description": "ours"}
    (folder / "corpus.json").write_text(json.dumps(manifest))


def read_model(folder: Path) -> None:
    """Translate with somebody else's model."""
    translator = load_model(folder / "model", "cpu")
    translator.translate("a b c", max_new_tokens=2)


def read_corpus(folder: Path) -> None:
    """Read a corpus by its manifest."""
    corpus = find_corpus(str(folder / "corpus.json"))
    corpus.fingerprint()
    for split in ("train", "valid", "test"):
        for _ in corpus.pairs(split):
            pass


READERS: dict[str, Callable[[Path], object]] = {
    "model/recipe.json": read_model,
    "model/best.json": read_model,
    "model/best-weights-*": read_model,
    "model/tokenizer.model": read_model,
    "run/metrics.jsonl": lambda folder: read_metrics(folder / "run"),
    "run/log.jsonl": lambda folder: read_log(folder / "run"),
    "run/sessions.jsonl": lambda folder: read_sessions(folder / "run"),
    "corpus.json": read_corpus,
    "corpus.tsv": read_corpus,
}
"""File → what reads it."""


def damaged_file(folder: Path, rng: random.Random) -> tuple[str, Callable[[], object]]:
    """Damage one of the files, in a copy of the folder; return a description and what reads it."""
    pattern = rng.choice(list(READERS))
    copy = folder.with_name(f"{folder.name}-damaged")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    (path,) = copy.glob(pattern)
    damage(path, rng)
    if "weights" in pattern:  # somebody who damages a file on purpose also writes its checksum
        best = json.loads((copy / "model" / "best.json").read_text())
        best["weights"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        (copy / "model" / "best.json").write_text(json.dumps(best))
    return pattern, lambda: READERS[pattern](copy)


# Command lines --------------------------------------------------------------------------------------------------------


def _do_nothing(command: Any) -> Any:
    """Return a command with the same options that only checks them."""
    if isinstance(command, RecipeCommand):
        return dataclasses.replace(command, function=_do_nothing(command.function))
    return functools.wraps(command)(lambda *args, **kwargs: 0)


COMMANDS: Mapping[str, Any] = {name: _do_nothing(command) for name, command in commands.COMMANDS.items()}


def command_line(rng: random.Random) -> list[str]:
    """Return a command with options of its own and odd values, in odd places."""
    name = rng.choice(list(COMMANDS))
    command = COMMANDS[name]
    if isinstance(command, RecipeCommand):
        recipe = rng.choice(list(command.defaults))
        args, options = [name, recipe], list(_options(command.defaults[recipe]))
    else:
        args, options = [name, "multi30k"], list(inspect.signature(command).parameters)
    for _ in range(rng.randrange(5)):
        value = rng.choice([*ODD[:-1], "1", "0.1", "auto", "a,b", "--", "-1", "--help", "yes"])
        text = value if isinstance(value, str) else json.dumps(value)
        option = "--" + rng.choice(options).replace("_", "-")
        args += rng.choice([[option, text], [f"{option}={text}"], [option], [text], [option, text, text]])
    if rng.random() < 0.1:
        rng.shuffle(args)
    return args


def _options(defaults: Any, prefix: str = "") -> Iterator[str]:
    for field in dataclasses.fields(defaults):
        value = getattr(defaults, field.name)
        if dataclasses.is_dataclass(value):
            yield from _options(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def parse(args: list[str]) -> None:
    """Parse a command line as the program does.

    Raises:
        AssertionError: if it ends with another code than 0, 2 or, for ``--help``, SystemExit's.
    """
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            code = run_command("transformer", "Fuzzed.", COMMANDS, args)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    assert code in (0, 2), f"exit code {code}: {output.getvalue()[-500:]}"


# The run --------------------------------------------------------------------------------------------------------------


def make_input(folder: Path, seed: int, number: int) -> tuple[str, Callable[[], object]]:
    """Return a description of the input with this number, and what runs it."""
    rng = random.Random(f"{seed} {number}")
    if rng.random() < 0.3:
        args = command_line(rng)
        return f"transformer {args!r:.300}", functools.partial(parse, args)
    return damaged_file(folder, rng)


def run_input(folder: Path, seed: int, number: int) -> str | None:
    """Run the input with this number; return None, or what is wrong."""
    what, action = make_input(folder, seed, number)
    signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            action()
    except (UserError, OSError) as error:  # of both, the program shows the message
        if not str(error).strip() or isinstance(error, TimeoutError):
            return f"{what}: {error or 'the message is empty'}"
    except BaseException:
        return f"{what}:\n{traceback.format_exc(limit=-6)}"
    finally:
        signal.alarm(0)
    return None


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"it takes longer than {SECONDS} s")


def _work(folder: Path, seed: int, last: int, current: Any, findings: Any) -> None:
    torch.set_num_threads(1)
    while current.value < last:
        if message := run_input(folder, seed, current.value):
            findings.put((current.value, message))
        current.value += 1
    findings.put(None)


def fuzz(n_inputs: int, seed: int = 0, first: int = 0) -> dict[int, str]:
    """Run inputs in a process of their own, so that a crash of it is found, too.

    Returns:
        The number of each input that failed, and what is wrong.
    """
    context = multiprocessing.get_context("fork")
    current, findings, found = context.Value(c_long, first), context.SimpleQueue(), {}
    last = first + n_inputs
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary, tqdm(total=n_inputs, disable=None) as bar:
        (folder := Path(temporary) / "files").mkdir()
        make_files(folder)
        while current.value < last:
            worker = context.Process(target=_work, args=(folder, seed, last, current, findings))
            worker.start()
            while worker.is_alive() or not findings.empty():
                worker.join(0.2)
                while not findings.empty():
                    if (finding := findings.get()) is not None:
                        number, message = finding
                        found[number] = message
                        tqdm.write(f"input {number}: {message}\n")
                bar.update(current.value - first - bar.n)
            if current.value < last:
                found[current.value] = f"the process ended with exit code {worker.exitcode}"
                tqdm.write(f"input {current.value}: {found[current.value]}\n")
                current.value += 1
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Feed damaged files and odd command lines."
    )
    parser.add_argument("--inputs", type=int, default=1000, help="how many inputs (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other inputs (default: 0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first input (default: 0)")
    arguments = parser.parse_args()
    found = fuzz(arguments.inputs, arguments.seed, arguments.first)
    print(f"{arguments.inputs:,} inputs with seed {arguments.seed}: {len(found)} findings")
    sys.exit(bool(found))
