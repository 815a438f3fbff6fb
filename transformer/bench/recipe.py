"""How fast this machine trains a recipe: real steps of its trainer, in turn with those of ``torch.nn.Transformer``.

What is counted in FLOP are the multiplications and additions of matrix products; the rest of a step is small beside.
"""

import copy
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from tabulate import tabulate
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

from transformer.attention import MultiHeadAttention
from transformer.bench.contests import Setting, random_data, wait_for
from transformer.bench.memory import forget_peak, peak, used, wake
from transformer.bench.report import about, check_output, keep, number
from transformer.bench.rivals import TorchTransformer
from transformer.data.batching import Batch
from transformer.data.prepare import PreparedData, store_folder
from transformer.data.tokenizer import PAD
from transformer.device import Device
from transformer.errors import UserError
from transformer.model import Transformer
from transformer.recipes import Recipe
from transformer.training.distributed import ProcessGroup
from transformer.training.trainer import Trainer, batch_loss

STEPS = 20
"""Measured steps, unless one says otherwise."""
WARM_UP = 5
"""Steps before them: compilation, new memory, Adam's first state."""
COUNTED = 2
"""Batches whose FLOP are counted; they hardly differ from token to token."""
CPU_WORK, QUICK_WORK = 5e11, 2e10
"""At most about so many FLOP in a step on a CPU, which takes seconds, and with ``quick``."""
PRODUCTS = 5
"""So many in a round; the best of all rounds is the device's peak."""
RIVAL_FULL = "it needs more memory than there is"
NOT_MEASURED = "not measured"


@dataclass
class Round:
    """One measured step."""

    target_tokens: int
    source_tokens: int
    """Without padding, but with each sentence's eos."""
    cells: int
    """Tokens and padding on both sides."""
    loader_seconds: float
    """What its batches take to be made and to be brought to the device."""
    seconds: float = 0.0
    """The whole step's."""
    rival_seconds: float | None = None
    product_flops: float = 0.0
    """FLOP a second of the best of some large matrix products."""


@dataclass
class Measured:
    """What was measured of a recipe."""

    recipe: str
    parameters: int
    steps: int
    """The recipe's."""
    full_batch_tokens: int
    """The recipe's target tokens in a step."""
    batch_tokens: int
    """Those measured."""
    accumulate: int
    """Batches that a step was made of."""
    compiled: bool
    data: str
    flop_a_cell: float
    """FLOP of the forward and backward pass for each token on either side, padding too."""
    product: str
    """Whose FLOP a second are the device's peak."""
    peak_memory: int | None
    """Bytes that training needs at its peak, from the weights on."""
    rival_compiled: bool = False
    rival_missing: str = ""
    """Why there are no steps of the rival."""
    rounds: list[Round] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """The numbers of the table; times and rates are medians over the rounds."""
        seconds = statistics.median(r.seconds for r in self.rounds)
        target_rate = statistics.median(r.target_tokens / r.seconds for r in self.rounds)
        flops = statistics.median(self.flop_a_cell * r.cells / r.seconds for r in self.rounds)
        cells = sum(r.cells for r in self.rounds)
        ratios = [r.rival_seconds / r.seconds for r in self.rounds if r.rival_seconds is not None]
        highest = max(r.product_flops for r in self.rounds)
        a_step = seconds if self.batch_tokens == self.full_batch_tokens else self.full_batch_tokens / target_rate
        return {
            "milliseconds_a_step": seconds * 1e3,
            "target_tokens_per_second": target_rate,
            "tokens_per_second": statistics.median(
                (r.target_tokens + r.source_tokens) / r.seconds for r in self.rounds
            ),
            "padding_share": 1 - sum(r.target_tokens + r.source_tokens for r in self.rounds) / cells,
            "flop_a_step": self.flop_a_cell * cells / len(self.rounds),
            "flops": flops,
            "peak_flops": highest,
            "peak_share": flops / highest,
            "loader_share": statistics.median(r.loader_seconds / r.seconds for r in self.rounds),
            "hours": self.steps * a_step / 3600,
            "rival_ratio": statistics.median(ratios) if ratios else None,
        }


def bench_recipes(
    recipes: Mapping[str, Recipe],
    setting: Setting,
    steps: int = STEPS,
    compiled: bool = False,
    rival: bool = True,
    output: Path | None = None,
    progress: bool = True,
) -> Iterator[str]:
    """Measure how fast recipes train here, and tell of each as soon as it is measured.

    Args:
        steps: how many are measured.
        compiled: compile the model, and the rival's.
        rival: measure ``torch.nn.Transformer`` too.
        output: a JSON file for the same, and for each step.
        progress: show a bar.

    Yields:
        Text: first where and how it runs, then a table a recipe.

    Raises:
        UserError: if a number is out of its range, memory runs out, or the file cannot be written.
    """
    if steps < 1:
        raise UserError(f"steps must be at least 1; got {steps}")
    check_output(output)
    torch.set_num_threads(setting.threads)
    told = about(setting) | {
        "steps": f"{steps}, after {WARM_UP} that are not counted{', in turn with the rival' if rival else ''}; medians"
        + ("; QUICK: batches too small to compare" if setting.quick else "")
    }
    yield tabulate(told.items(), tablefmt="plain")
    found = []
    for name, recipe in recipes.items():
        measured = measure(name, recipe, setting, steps, compiled, rival, progress)
        found.append({**asdict(measured), "figures": measured.figures()})
        keep(output, {**told, "recipes": found})
        yield f"{name}: {measured.parameters:,} parameters, {recipe.training.steps:,} steps\n\n{table(measured)}"


def measure(
    name: str,
    recipe: Recipe,
    setting: Setting,
    steps: int = STEPS,
    compiled: bool = False,
    rival: bool = True,
    progress: bool = True,
) -> Measured:
    """Train a recipe for some steps and look at the clock. For the arguments see `bench_recipes`.

    Raises:
        UserError: if memory runs out.
    """
    device, kind = setting.device, setting.device.device.type
    with torch.device("meta"):  # shapes without memory
        parameters = sum(p.numel() for p in Transformer(recipe.model).parameters())
    config = replace(recipe.training, batch_tokens=batch_tokens(recipe, parameters, setting))
    runs = (WARM_UP + steps) * (1 + rival)
    bar = tqdm(total=runs, desc=f"{name}, warming up", unit="step", dynamic_ncols=True, disable=not progress)
    with bar, _room(name), TemporaryDirectory() as folder:
        data, told = _data(recipe, Path(folder), setting)
        multiply, product_told = product(setting)
        wake(device)
        forget_peak(device)
        before = used(device)
        ours = Trainer(recipe.model, config, data, device, ProcessGroup(0, 1, device.device), compiled)
        if kind == "cuda":
            ours.fit_batch_to_memory()
            forget_peak(device)  # that of its attempts
        _warm_up(ours, bar)
        needed = None if kind == "mps" else peak(device) - before
        measured = Measured(
            recipe=name,
            parameters=parameters,
            steps=config.steps,
            full_batch_tokens=recipe.training.batch_tokens,
            batch_tokens=config.batch_tokens,
            accumulate=ours.progress.accumulate,
            compiled=ours.loss is not ours.eager_loss,
            data=told,
            flop_a_cell=flop_a_cell(ours),
            product=product_told,
            peak_memory=needed,
            rounds=load(ours, steps),
        )
        theirs = _rival(ours, compiled, measured, bar) if rival else None
        bar.set_description(name)
        for this in measured.rounds:
            this.product_flops = multiply()
            this.seconds = _timed(ours.step, device)
            bar.update()
            if theirs is not None:
                try:
                    this.rival_seconds = _timed(theirs.step, device)
                except torch.OutOfMemoryError:
                    theirs, measured.rival_missing = None, RIVAL_FULL
                bar.update()
    return measured


def _rival(ours: Trainer, compiled: bool, measured: Measured, bar: "tqdm[Any]") -> Trainer | None:
    """The rival, warm, if there is room for it beside ours."""
    try:
        theirs = torch_trainer(ours, compiled)
        _warm_up(theirs, bar)
    except torch.OutOfMemoryError:
        measured.rival_missing = RIVAL_FULL
        return None
    measured.rival_compiled = theirs.loss is not theirs.eager_loss
    return theirs


def _warm_up(trainer: Trainer, bar: "tqdm[Any]") -> None:
    for _ in range(WARM_UP):
        trainer.step()
        bar.update()


def batch_tokens(recipe: Recipe, parameters: int, setting: Setting) -> int:
    """Target tokens of a measured step: the recipe's, or fewer where those would take minutes.

    A parameter costs about 6 FLOP a token: one product and its sum forward, and two of each backward.
    """
    work = QUICK_WORK if setting.quick else CPU_WORK if setting.device.device.type == "cpu" else float("inf")
    return int(max(1, min(recipe.training.batch_tokens, work / (6 * parameters))))


def load(trainer: Trainer, steps: int) -> list[Round]:
    """Take the batches of the next steps, as the trainer will, and look only at them and at the clock."""
    batches, device, rounds = copy.copy(trainer.batches), trainer.device, []
    for _ in range(steps):
        started = time.perf_counter()
        taken = [next(batches).to(device.device) for _ in range(trainer.progress.accumulate)]
        wait_for(device)
        seconds = time.perf_counter() - started
        source = sum(int((batch.source != PAD).sum()) for batch in taken)
        cells = sum(batch.source.numel() + batch.labels.numel() for batch in taken)
        rounds.append(Round(sum(batch.n_tokens for batch in taken), source, cells, seconds))
    return rounds


def flop_a_cell(trainer: Trainer) -> float:
    """FLOP of the forward and backward pass, counted as they run, for each token or padding on either side."""
    batches, cells = copy.copy(trainer.batches), 0
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: _product_flop})
    with _readable(trainer.model), counter, trainer.device.autocast():
        for _ in range(COUNTED):
            batch = next(batches).to(trainer.device.device)
            batch_loss(trainer.model, batch, trainer.config.label_smoothing).backward()
            cells += batch.source.numel() + batch.labels.numel()
    trainer.optimizer.zero_grad()
    return counter.get_total_flops() / cells


def _product_flop(added: Any, left: torch.Size, right: torch.Size, *_: Any, **__: Any) -> int:
    """What the counter does not know: the product that our loss adds to the gradient of the unembedding."""
    return 2 * left[0] * left[1] * right[1]


@contextmanager
def _readable(model: Transformer) -> Iterator[None]:
    """Attention in its explicit form, in which all products are seen: fused ones are counted on some devices only."""
    layers = [layer for layer in model.modules() if isinstance(layer, MultiHeadAttention)]
    forms = [layer.form for layer in layers]
    for layer in layers:
        layer.form = "explicit"
    try:
        yield
    finally:
        for layer, form in zip(layers, forms, strict=True):
            layer.form = form


def product(setting: Setting) -> tuple[Callable[[], float], str]:
    """What measures FLOP a second of products of two large square matrices, the best of some; and which they are."""
    device = setting.device
    size = setting.size(1024 if device.device.type == "cpu" else 8192, 256)  # large enough to keep the device busy
    dtype = device.autocast_dtype or torch.float32
    left, right = (torch.randn(size, size, device=device.device, dtype=dtype) for _ in range(2))
    out = left @ right

    def measure_best() -> float:
        return 2 * size**3 / min(_timed(lambda: torch.mm(left, right, out=out), device) for _ in range(PRODUCTS))

    return measure_best, f"the best product of two {size:,} × {size:,} matrices in {str(dtype).removeprefix('torch.')}"


def torch_trainer(ours: Trainer, compiled: bool) -> Trainer:
    """A trainer that differs in the model and its loss only: ``torch.nn.Transformer``, with dropout where ours is."""
    config = replace(ours.config, gradient_accumulation_steps=ours.progress.accumulate, average_steps=0)
    trainer = Trainer(ours.model.config, config, ours.data, ours.device, ours.process_group)
    model = TorchTransformer(trainer.model, everywhere=False).to(ours.device.device)
    trainer.model = cast(Transformer, model)
    trainer.optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
    loss = TorchLoss(model, config.label_smoothing)
    trainer.eager_loss = loss  # type: ignore[assignment]
    trainer.loss = torch.compile(loss, dynamic=True) if compiled else loss  # type: ignore[assignment]
    return trainer


class TorchLoss(nn.Module):
    """The rival's loss as a trainer wants it."""

    def __init__(self, model: TorchTransformer, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(self, source: Tensor, decoder_input: Tensor, expected: Tensor) -> Tensor:
        """A batch's summed loss, ()."""
        return self.model.loss(Batch(source, decoder_input, expected), self.smoothing)


def table(measured: Measured) -> str:
    """What was measured, for people, each with what it means."""
    m, f = measured, measured.figures()
    whole = m.batch_tokens == m.full_batch_tokens
    of = "the recipe's" if whole else f"of the recipe's {m.full_batch_tokens:,}, so that a step takes seconds"
    memory = NOT_MEASURED if m.peak_memory is None else f"{m.peak_memory / 2**20:,.0f} MiB"
    rival = NOT_MEASURED if f["rival_ratio"] is None else f"{f['rival_ratio']:.2f} ×"
    data, _, which = m.data.partition(": ")
    rows = [
        ("data", data, which),
        ("target tokens in a step", f"{m.batch_tokens:,}", f"at most; {of}"),
        ("batches in a step", f"{m.accumulate}", "more than one where memory is too small; train does the same"),
        ("compiled", _yes(m.compiled), "it takes a minute or two at first"),
        ("a step", f"{number(f['milliseconds_a_step'])} ms", "forward, loss, backward, Adam"),
        ("target tokens/s", number(f["target_tokens_per_second"]), "padding not counted"),
        ("all tokens/s", number(f["tokens_per_second"]), "source and target"),
        ("padding", f"{f['padding_share']:.1%}", "of what the model reads is there for nothing"),
        ("work in a step", _flop(f["flop_a_step"]), "matrix products forward and backward, those of padding too"),
        ("work done", f"{_flop(f['flops'])}/s", "that over the step's time"),
        ("the device's peak", f"{_flop(f['peak_flops'])}/s", m.product),
        ("share of the peak", f"{f['peak_share']:.1%}", "the rest of the time is memory, small products, Adam, Python"),
        (
            "peak memory",
            memory,
            "weights, gradients, Adam's moments, activations" + ("" if whole else "; more for the recipe's batches"),
        ),
        ("loader", f"{f['loader_share']:.1%}", "of a step: its batches are made and brought to the device"),
        (
            "the recipe here",
            _duration(f["hours"]),
            f"{m.steps:,} steps, validation not counted" + ("" if whole else "; from target tokens/s"),
        ),
    ]
    if m.rival_missing or f["rival_ratio"] is not None:
        same = f"its step's time over ours; the same dropout; compiled: {_yes(m.rival_compiled)}"
        rows.append(("torch.nn.Transformer", rival, m.rival_missing or same))
    header = ["what", "here", "which is"]
    return tabulate(rows, header, tablefmt="github", disable_numparse=True, colalign=("left", "right", "left"))


def _flop(flop: float) -> str:
    return f"{number(flop / 1e12)} TFLOP" if flop >= 1e12 else f"{number(flop / 1e9)} GFLOP"


def _duration(hours: float) -> str:
    return f"{number(hours)} hours" if hours >= 1 else f"{number(60 * hours)} minutes"


def _yes(true: bool) -> str:
    return "yes" if true else "no"


def _data(recipe: Recipe, folder: Path, setting: Setting) -> tuple[PreparedData, str]:
    """The recipe's data if it is prepared here, or else random sentences of the same vocabulary; and what it is."""
    prepared = store_folder(recipe.data, recipe.model.vocab_size)
    if (prepared / "store.json").exists():
        return PreparedData(prepared), f"the recipe's: prepared in {prepared.name}"
    random_data(folder, recipe.model.vocab_size, min(100, recipe.model.max_length - 4), setting)
    return PreparedData(folder), "random: 25 ± 12 tokens a side; once the recipe is prepared, its own are taken"


@contextmanager
def _room(name: str) -> Iterator[None]:
    """Say what to change when memory runs out."""
    try:
        yield
    except RuntimeError as error:  # PyTorch's own for a GPU, and what it says on a CPU
        if not isinstance(error, torch.OutOfMemoryError) and "not enough memory" not in str(error):
            raise
        raise UserError(
            f"memory is full: {name} needs smaller batches "
            f"(transformer train {name} --training.gradient-accumulation-steps 2, or 4, 8: "
            f"the steps stay the same) or a smaller model; {str(error).splitlines()[0][:100]}"
        ) from error


def _timed(work: Callable[[], object], device: Device) -> float:
    """Seconds that it takes until the device is done."""
    wait_for(device)
    started = time.perf_counter()
    work()
    wait_for(device)
    return time.perf_counter() - started
