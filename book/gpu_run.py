"""The first run on a GPU: ``python -m book.gpu_run run``, which is ``make first-gpu-run``.

The run consists of steps of a few minutes. Each writes ``STEP.json`` to ``book/results/gpu``: what it measured, on
which hardware, with which driver and versions, at which commit and when. A step whose file exists is skipped, so the
run can be stopped at any time, and the same command continues it. A step that fails or takes too long leaves a file
``STEP.failed.json`` with the end of its output; the next step starts, and the failed one is retried the next time.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any, cast

import torch
import torch.nn.functional as F
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from tyro.conf import Positional, arg

from transformer.bench.baselines import CTranslate2, HuggingFaceMarian, ModelWithCrossEntropy
from transformer.bench.runner import timed
from transformer.command_line import check_name, run_command
from transformer.config import PRESETS, TrainingConfig
from transformer.data.batching import pad
from transformer.data.synthetic import random_data, random_pairs
from transformer.data.tokenizer import BOS, EOS, PAD
from transformer.decoding import beam_search, greedy_search
from transformer.device import Device, DeviceName, choose_device
from transformer.errors import UserError
from transformer.files import write_atomically
from transformer.model import Transformer
from transformer.provenance import provenance
from transformer.training.distributed import DistributedContext
from transformer.training.run_folder import read_log
from transformer.training.trainer import Trainer
from transformer.translator import decoding_batch_size

RESULTS = Path(__file__).parent / "results" / "gpu"
RUNS = Path("runs", "gpu")
STEP_SECONDS = 480
"""A step is stopped after this time. A training run continues from its last checkpoint when the step is retried."""
BASELINE_BATCH_SIZE = 1001
"""Sentences that other implementations translate at once, in one of two measurements; in the other, all at once."""
OUTPUT_LENGTH = 30_000  # characters of a command's output that are kept


@dataclass(frozen=True)
class Step:
    """A question, and the command that answers it."""

    question: str
    command: list[str]
    """Its arguments may contain ``{json}``, the file for the results, and ``{run}``, a run folder."""
    quick: list[str]
    """The same command with sizes that take seconds on a CPU, to check that the run will succeed."""


def _bench(*arguments: str, quick: Sequence[str] = ()) -> dict[str, list[str]]:
    command = ["transformer.cli", "bench", *arguments, "--output", "{json}"]
    return {"command": command, "quick": [*command, "--quick", "--threads", "1", *quick]}


def _measure(name: str) -> dict[str, list[str]]:
    command = ["book.gpu_run", "measure", name, "--output", "{json}"]
    return {"command": command, "quick": [*command, "--quick"]}


def _train(recipe: str, *arguments: str) -> dict[str, list[str]]:
    command = ["transformer.cli", "train", recipe, "--run", "{run}", *arguments]
    tiny = ["--training.steps", "4", "--training.warmup-steps", "2", "--training.batch-tokens", "200"]
    return {"command": command, "quick": ["transformer.cli", "train", "copy", "--run", "{run}", *tiny]}


LARGE_BATCHES = ["--training.batch-tokens", "12000", "--training.steps", "4000", "--training.warmup-steps", "800"]
STEPS: dict[str, Step] = {
    "checks": Step(
        "Does the GPU compute the same as the CPU?",
        ["pytest", "-v", "--durations=15", "-m", "gpu", "tests/gpu"],
        ["pytest", "-q", "-m", "gpu", "tests/gpu", "--collect-only"],
    ),
    "attention": Step("Which of PyTorch's attention backends is fastest?", **_measure("attention")),
    "base-eager": Step(
        "How fast are training steps of the base model?",
        **_bench("wmt14-base", "--rounds", "10", "--compile", "no", quick=["--rounds", "1"]),
    ),
    "base-compiled": Step(
        "How much faster are these steps with torch.compile?",
        **_bench("wmt14-base", "--rounds", "10", "--compile", "yes", quick=["--rounds", "1", "--compile", "no"]),
    ),
    "ladder": Step(
        "How much faster do training steps get with each change, added to those before it?", **_measure("ladder")
    ),
    "profile": Step("What does a training step spend its time on?", **_measure("training-profile")),
    "interruption": Step("What does a training run lose if it is killed?", **_measure("interruption")),
    "decoding": Step("How fast are 3,003 sentences translated by the base model?", **_measure("decoding")),
    "big-compiled": Step(
        "How fast are training steps of the big model?",
        **_bench("wmt14-big", "--rounds", "5", "--compile", "yes", quick=["--rounds", "1", "--compile", "no"]),
    ),
    "implementations": Step(
        "How do other implementations compare?",
        **_bench("train", "loss", "beam", "beam-long", "beam-short", "greedy", quick=["--rounds", "1"]),
    ),
    **{
        f"captions-{seed}": Step(
            "How good does the caption translator get with large batches, and in how many minutes?",
            **_train("multi30k", *LARGE_BATCHES, "--training.seed", str(seed)),
        )
        for seed in (1, 2, 3)
    },
    "wmt14-small-corpus": Step(
        "Does the base model learn from the 200,000 pairs of wmt14-mini as it should?",
        **_train("wmt14-base", "--data.corpus", "wmt14-mini", "--training.steps", "4000"),
    ),
}


def run(
    steps: Annotated[Positional[tuple[str, ...]], arg(metavar="[STEP ...]", help_behavior_hint="(default: all)")] = (),
    output: Annotated[Path, arg(metavar="FOLDER", help_behavior_hint="(default: book/results/gpu)")] = RESULTS,
    mirror: Annotated[str | None, arg(metavar="FOLDER|URL", help_behavior_hint="")] = None,
    quick: bool = False,
) -> int:
    """Run the steps whose results are missing, one after another.

    Examples:
        python -m book.gpu_run run
        python -m book.gpu_run run attention base-eager
        python -m book.gpu_run run --quick --output /tmp/dry-run

    Args:
        steps: Names of steps; `python -m book.gpu_run list` shows them.
        output: The folder for the results.
        mirror: Where training runs read their corpus from, as in `transformer train`.
        quick: A dry run: the same steps with tiny sizes, on any device; it needs an ``--output`` of its own.
    """
    for name in steps:
        check_name(name, STEPS, "step")
    if quick and output == RESULTS:
        raise UserError("--quick needs an --output folder of its own: what it measures doesn't belong in the results")
    device = choose_device()
    if not quick and device.type != "cuda":
        raise UserError("PyTorch finds no CUDA GPU on this machine; for a dry run on another device, add --quick")
    output.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in steps or STEPS:
        file = output / f"{name}.json"
        if file.exists():
            print(f"{name}: already done, see {file}")
            continue
        print(f"{name}: {STEPS[name].question}", flush=True)
        record, succeeded = _run_step(name, output, mirror, quick, device)
        failure = output / f"{name}.failed.json"
        failure.unlink(missing_ok=True)
        file = file if succeeded else failure
        write_atomically(file, (json.dumps(record, indent=2) + "\n").encode())
        failed += not succeeded
        print(f"{name}: {'done' if succeeded else 'FAILED'} after {record['seconds']:.0f} s, see {file}", flush=True)
    return 1 if failed else 0


def _run_step(name: str, output: Path, mirror: str | None, quick: bool, device: Device) -> tuple[dict[str, Any], bool]:
    """Run the command of a step; return what its file contains, and whether it succeeded."""
    step, runs = STEPS[name], (output / "runs" if quick else RUNS)
    with TemporaryDirectory() as temporary:
        results = Path(temporary, "results.json")
        words = [word.format(json=results, run=runs / name) for word in (step.quick if quick else step.command)]
        if "train" in words and mirror:
            words += ["--mirror", mirror]
        started = time.monotonic()
        printed, code = _run_command([sys.executable, "-m", *words])
        record = {
            "step": name,
            "question": step.question,
            "quick": quick,
            **provenance(device),
            "command": " ".join(["python", "-m", *(step.quick if quick else step.command)]),
            "seconds": round(time.monotonic() - started, 1),
            "exit_code": code,
            "results": None,
            "printed": printed[-OUTPUT_LENGTH:],
        }
        with suppress(OSError, ValueError):
            record["results"] = json.loads(results.read_text())
        metrics = runs / name / "metrics.jsonl"
        if metrics.exists():
            record["results"] = [json.loads(line) for line in metrics.read_text().splitlines()]
    return record, code == 0


def _run_command(command: list[str]) -> tuple[str, int]:
    """Run a command for at most `STEP_SECONDS`, and end all its processes; return its output and its exit code."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
    ) as process:
        try:
            printed, _ = process.communicate(timeout=STEP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed = process.communicate()[0] + f"\nstopped after {STEP_SECONDS} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return printed, process.returncode


def list_steps() -> None:
    """Show the steps and their questions."""
    for name, step in STEPS.items():
        print(f"{name:20} {step.question}")


def measure(
    name: Annotated[Positional[str], arg(metavar="NAME")],
    output: Annotated[Path, arg(metavar="FILE")],
    quick: bool = False,
) -> None:
    """Measure one of the things that `transformer bench` doesn't, and write a JSON file; the steps call this.

    Args:
        name: attention, training-profile, decoding, ladder or interruption.
        output: The JSON file.
        quick: With tiny sizes, on any device.
    """
    check_name(name, MEASUREMENTS, "measurement")
    results = []
    for result in MEASUREMENTS[name](choose_device(), quick):
        results.append(result)
        write_atomically(output, json.dumps(results, indent=2).encode())  # now, in case this is stopped
        print(result, flush=True)


def measure_attention(device: Device, quick: bool) -> Iterator[dict[str, Any]]:
    """Time each backend of PyTorch's fused attention, forward and backward, and its first call with each new shape."""
    shapes = [(4, 16)] if quick else [(1600, 16), (800, 32), (400, 64), (200, 128)]  # 25,600 tokens each
    backends = {n: b for n, b in SDPBackend.__members__.items() if n not in ("ERROR", "OVERRIDEABLE")}
    # With all of them enabled, also those that `configure_cuda` disables.
    choices: dict[str, SDPBackend | list[SDPBackend]] = {"PyTorch's choice": list(backends.values()), **backends}
    for sentences, length in shapes:
        for mask in ("none", "padding", "is_causal"):
            for name, backend in choices.items():
                facts = {"sentences": sentences, "length": length, "mask": mask, "kernel": name}
                try:
                    same, new = (
                        [1000 * timed(device, _attention(device, backend, mask, sentences, n))[0] for n in lengths]
                        for lengths in ([length] * 10, range(length - 1, length - 6, -1))
                    )
                    yield facts | {"milliseconds": median(same), "milliseconds_of_new_shapes": median(new)}
                except RuntimeError as error:  # this backend doesn't support the case
                    yield facts | {"error": str(error).splitlines()[0][:100]}


def _attention(
    device: Device, backend: SDPBackend | list[SDPBackend], mask: str, sentences: int, length: int
) -> Callable[[], None]:
    """Draw inputs as in the base model; return a function that runs attention on them, forward and backward."""
    dtype = device.autocast_dtype or torch.float32
    query, key, value, upstream = torch.randn(4, sentences, 8, length, 64, device=device.torch_device, dtype=dtype)
    query.requires_grad_()
    key.requires_grad_()
    value.requires_grad_()
    lengths = torch.randint(length // 2, length + 1, (sentences, 1, 1, 1), device=device.torch_device)
    padding = torch.arange(length, device=device.torch_device) < lengths if mask == "padding" else None

    def attend() -> None:
        with sdpa_kernel(backend):
            F.scaled_dot_product_attention(
                query, key, value, attn_mask=padding, is_causal=mask == "is_causal"
            ).backward(upstream)

    return attend


def measure_decoding(device: Device, quick: bool) -> Iterator[dict[str, Any]]:
    """Translate 3,003 random sentences of 25 ± 12 tokens, as many as newstest2014 has, with an untrained model.

    Each translation has the maximum of 30 new tokens, which is about the mean of newstest2014. The comparison is with
    Hugging Face's ``generate`` and CTranslate2, which have the same weights in 16 bits.
    """
    shape = PRESETS["small" if quick else "base"]
    count, tokens = (8, 4) if quick else (3003, 30)
    torch.manual_seed(1)
    model = Transformer(shape).to(device.torch_device).eval()
    with torch.no_grad():
        model.unembedding.weight[[PAD, BOS, EOS]] = 0  # never the most probable of thousands of random logits
    sources, _ = random_pairs(count, shape.vocab_size)
    sources.sort(key=len, reverse=True)
    searches: dict[str, tuple[int, Callable[..., object]]] = {
        "greedy": (1, greedy_search),
        "beam 4": (4, partial(beam_search, beam_size=4)),
    }
    for name, (beam_size, search) in searches.items():
        batch = decoding_batch_size(shape, device, len(sources[0]), beam_size)
        with device.autocast():
            seconds = _seconds(
                device, quick, partial(_decode_all, partial(search, model), sources, device, batch, tokens)
            )
        yield _decoding_speed("ours", name, count, tokens, min(batch, count), seconds)
    others: dict[str, Callable[[], HuggingFaceMarian | CTranslate2]] = {
        "Hugging Face Marian": partial(HuggingFaceMarian, model, device),
        "CTranslate2": partial(CTranslate2, model, device, threads=1),
    }
    for (other, prepare), batch in product(others.items(), sorted({min(BASELINE_BATCH_SIZE, count), count})):
        try:
            implementation = prepare()
            for name, (beam_size, _) in searches.items():
                search = partial(implementation.search, beam_size=beam_size)
                seconds = _seconds(device, quick, partial(_decode_all, search, sources, device, batch, tokens))
                yield _decoding_speed(other, name, count, tokens, batch, seconds)
        except (ImportError, RuntimeError) as error:  # a RuntimeError if memory or a library that it needs is missing
            yield {"implementation": other, "first_batch": batch, "error": str(error)}


def _seconds(device: Device, quick: bool, decode: Callable[[], object]) -> float:
    """Return the shortest of three times; the first call, which allocates the memory, doesn't count."""
    decode()
    return min(timed(device, decode)[0] for _ in range(1 if quick else 3))


def _decoding_speed(
    implementation: str, search: str, count: int, tokens: int, batch: int, seconds: float
) -> dict[str, Any]:
    return {
        "implementation": implementation,
        "search": search,
        "sentences": count,
        "new_tokens": tokens,
        "first_batch": batch,
        "seconds": seconds,
        "sentences_per_second": count / seconds,
    }


def _decode_all(
    search: Callable[..., object], sources: list[list[int]], device: Device, batch: int, max_new_tokens: int
) -> None:
    """Decode all sources, which are sorted by length, in batches of this many sentences."""
    for start in range(0, len(sources), batch):
        source = pad([[*ids, EOS] for ids in sources[start : start + batch]]).to(device.torch_device)
        search(source, max_new_tokens=max_new_tokens)


CUMULATIVE_CHANGES: dict[str, dict[str, Any]] = {
    "explicit attention, all logits, float32": {},
    "+ fused attention": {"attention": "fused"},
    "+ loss in chunks": {"loss_in_chunks": True},
    "+ mixed precision": {"precision": "auto"},
    "+ torch.compile": {"compiled": True},
}
"""What each version of the training step changes; it keeps the changes of those before it."""


def measure_cumulative_changes(device: Device, quick: bool) -> Iterator[dict[str, Any]]:
    """Time training steps of the base model, with one change after another.

    The first have explicit attention and all logits at once, in float32; the last are those of `transformer train`.
    """
    shape = PRESETS["small" if quick else "base"]
    steps, batch_tokens = (1, 200) if quick else (20, 25_000)
    with TemporaryDirectory() as folder:
        data = random_data(Path(folder), 500 if quick else 50_000, shape.vocab_size)
        version: dict[str, Any] = {
            "attention": "explicit", "precision": "fp32", "loss_in_chunks": False, "compiled": False
        }  # fmt: skip
        for name, changes in CUMULATIVE_CHANGES.items():
            version |= changes
            if version["compiled"] and device.type != "cuda":
                continue
            there = choose_device(cast(DeviceName, device.type), version["precision"])
            model, config = replace(shape, attention=version["attention"]), TrainingConfig(batch_tokens=batch_tokens)
            trainer = Trainer(model, config, data, there, DistributedContext(), version["compiled"])
            if not version["loss_in_chunks"]:
                trainer.model_with_loss = ModelWithCrossEntropy(trainer.model, config.label_smoothing)
            _take_steps(trainer, 1 if quick else 10)
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
            tokens = trainer.progress.target_tokens
            seconds, _ = timed(there, partial(_take_steps, trainer, steps))
            yield {
                "step": name,
                "milliseconds_per_step": 1000 * seconds / steps,
                "target_tokens_per_second": (trainer.progress.target_tokens - tokens) / seconds,
                "peak_memory": torch.cuda.max_memory_allocated() if device.type == "cuda" else None,
            }
            del trainer


def _take_steps(trainer: Trainer, steps: int) -> None:
    for _ in range(steps):
        trainer.step()


def profile_training(device: Device, quick: bool) -> Iterator[dict[str, Any]]:
    """Profile training steps of the base model: the share of time in which the device is busy, and its top kernels."""
    shape = PRESETS["small" if quick else "base"]
    steps, batch_tokens = (2, 200) if quick else (20, 25_000)
    with TemporaryDirectory() as folder:
        data = random_data(Path(folder), 500 if quick else 100_000, shape.vocab_size)
        alone = DistributedContext()
        for compiled in (False, True) if device.type == "cuda" else (False,):
            trainer = Trainer(shape, TrainingConfig(batch_tokens=batch_tokens), data, device, alone, compiled)
            _take_steps(trainer, 1 if quick else 10)
            yield {"compiled": compiled, **_profile(trainer, steps)}


def _profile(trainer: Trainer, steps: int) -> dict[str, Any]:
    """Profile some steps of a trainer."""
    device, on_gpu = trainer.device, trainer.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as profiler:
        seconds, _ = timed(device, partial(_take_steps, trainer, steps))
    busy: Counter[str] = Counter()  # milliseconds of each kernel
    calls: Counter[str] = Counter()
    here = DeviceType.CUDA if on_gpu else DeviceType.CPU
    for event in profiler.key_averages():
        # Kernels only: the operations that launched them, and the optimizer's step as a whole, would count them again.
        if event.device_type == here and not event.is_user_annotation:
            busy[event.key] += (event.self_device_time_total if on_gpu else event.self_cpu_time_total) / 1000
            calls[event.key] += event.count
    return {
        "milliseconds_per_step": 1000 * seconds / steps,
        "busy_share": sum(busy.values()) / (1000 * seconds),
        "kernels": [
            {"name": key[:120], "milliseconds_per_step": milliseconds / steps, "calls_per_step": calls[key] / steps}
            for key, milliseconds in busy.most_common(25)
        ],
    }


KILLED_TRAINING = """
train pocket --training.log-every 1 --training.warmup-steps 20 --training.validate-every 1000000
--training.validation-sentences 2 --training.average-steps 0
"""
"""The command of `measure_interruption`."""


def measure_interruption(device: Device, quick: bool) -> Iterator[dict[str, Any]]:
    """Kill a training run, resume it, and compare its losses with those of an uninterrupted one.

    The model has the base model's layers, and a small vocabulary. The run is killed halfway between two checkpoints,
    without warning. The time until it continues ends with the first step that it had not taken before.
    """
    shape = PRESETS["small" if quick else "base"]
    steps, checkpoint_every, batch_tokens = (9, 3, 100) if quick else (90, 30, 25_000)
    kill_at = steps // 2
    model = [f"--model.{name.replace('_', '-')}={getattr(shape, name)}" for name in ("d_model", "n_layers", "d_ff")]
    training = [f"--training.steps={steps}", f"--training.checkpoint-every={checkpoint_every}"]
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "transformer.cli", *KILLED_TRAINING.split(), *model, *training]
        command += [f"--model.n-heads={shape.n_heads}", f"--training.batch-tokens={batch_tokens}"]
        command += ["--device", device.type, "--run"]
        whole, killed = Path(folder, "whole"), Path(folder, "killed")
        subprocess.run([*command, str(whole)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with _started([*command, str(killed)]) as process:
            _wait_for_step(killed, kill_at, process)
        taken = len(read_log(killed))
        started = time.monotonic()
        with _started([*command, str(killed)]) as process:
            _wait_for_step(killed, taken + 1, process)
            seconds = time.monotonic() - started
            process.wait()
        losses = [{row["step"]: row["train_loss"] for row in read_log(run)} for run in (whole, killed)]
    differences = [abs(losses[1][step] / losses[0][step] - 1) for step in range(1, steps + 1)]
    yield {
        "steps": steps,
        "killed_after": taken,
        "checkpoint_every": checkpoint_every,
        "seconds_until_it_continued": seconds,
        "largest_relative_difference": max(differences),
        "losses": [losses[0][steps], losses[1][steps]],
    }


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command; it's killed at the end of the context."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_for_step(run: Path, step: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the log of a run has a step, but no longer than its process runs."""
    while process.poll() is None and not any(row["step"] >= step for row in read_log(run)):
        time.sleep(0.01)


MEASUREMENTS: dict[str, Callable[[Device, bool], Iterator[dict[str, Any]]]] = {
    "attention": measure_attention,
    "training-profile": profile_training,
    "decoding": measure_decoding,
    "ladder": measure_cumulative_changes,
    "interruption": measure_interruption,
}
COMMANDS: dict[str, Callable[..., Any]] = {"run": run, "list": list_steps, "measure": measure}

if __name__ == "__main__":
    sys.exit(run_command("python -m book.gpu_run", "The first run on a GPU, in steps.", COMMANDS, sys.argv[1:]))
