"""Predict the memory that training needs, and measure what some work used."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate

import torch

from transformer.config import ModelConfig, TrainingConfig
from transformer.data.batching import MAX_PADDED_RATIO
from transformer.device import Device, available_bytes, readable_bytes
from transformer.errors import UserError
from transformer.loss import CHUNK_ROWS, CHUNKS

TYPICAL_LENGTH = 30
"""Tokens per sentence, on either side, that `full_batch` assumes: about the mean of WMT14."""


@dataclass(frozen=True)
class BatchShape:
    """The size of a batch, padding included."""

    pairs: int
    """Number of sentence pairs."""
    source: int
    """Positions in each source."""
    target: int
    """Positions in each target."""


def full_batch(training: TrainingConfig, world_size: int = 1) -> BatchShape:
    """Return an upper bound on the size of a process's padded micro-batches, if all sentences have `TYPICAL_LENGTH`."""
    tokens = int(MAX_PADDED_RATIO * training.batch_tokens) // (world_size * training.gradient_accumulation_steps)
    return BatchShape(max(1, tokens // TYPICAL_LENGTH), TYPICAL_LENGTH, TYPICAL_LENGTH)


@dataclass(frozen=True)
class MemoryEstimate:
    """The memory that a training step needs on each device, in bytes."""

    weights: int
    optimizer: int
    """Adam's two moments of each parameter; Muon has one."""
    averaging: int
    """The running mean of the weights."""
    gradients: int
    activations: int
    """What the forward pass keeps for the backward pass."""
    backward_start: int
    """Extra memory at the start of the backward pass: for the loss, or for the last layer."""
    backward_end: int
    """Extra memory at the end of the backward pass: for the gradients of the embeddings."""
    gradients_preallocated: bool
    """Whether gradients exist before a step's last backward pass: of earlier micro-batches, or as DDP's buckets."""

    @property
    def total(self) -> int:
        """The peak: in the backward pass, activations are freed while gradients are allocated, so they share memory."""
        start = self.activations + self.backward_start + (self.gradients if self.gradients_preallocated else 0)
        end = self.gradients + self.backward_end
        return self.weights + self.optimizer + self.averaging + max(start, end)

    def __str__(self) -> str:
        sizes = {"weights": self.weights, "optimiser": self.optimizer, "averaging": self.averaging}
        sizes["activations and gradients"] = self.total - sum(sizes.values())
        parts = [f"{name} {readable_bytes(size)}" for name, size in sizes.items() if size]
        return f"{readable_bytes(self.total)} ({', '.join(parts)})"


def estimate_memory(
    model: ModelConfig,
    training: TrainingConfig,
    device: Device,
    batch: BatchShape | None = None,
    world_size: int = 1,
) -> MemoryEstimate:
    """Predict the memory of a training step from the settings alone.

    Tensors are counted as PyTorch's allocator counts them. What a GPU needs in addition, such as the CUDA context, is
    not included, nor are the temporary copies of ``torch.compile``.

    Args:
        batch: the size of one batch of one process; None: `full_batch`.
        world_size: number of processes.
    """
    batch = batch or full_batch(training, world_size)
    d_model, d_ff, n_layers, vocab_size = model.d_model, model.d_ff, model.n_layers, model.vocab_size
    source, target = batch.pairs * batch.source, batch.pairs * batch.target  # number of positions
    is_gpu, is_mixed = device.type == "cuda", device.autocast_dtype is not None
    element_size = 2 if is_mixed else 4  # of all activations
    norm_size = 4 if is_gpu else element_size  # a GPU's layer norm keeps a copy of its input in float32
    mask_size = 1 if is_gpu else element_size  # dropout's mask holds bools on a GPU

    def sublayer(positions: int) -> int:
        """Bytes for its input, the mask of its dropout, and the sum that the layer norm or the next sublayer gets."""
        return positions * d_model * (element_size + (mask_size if model.dropout else 0) + norm_size)

    def attention(queries: int, keys: int, key_length: int) -> int:
        """Bytes for queries, keys, values and the joined heads; and, unless the kernel is fused, the weights."""
        copies = 0
        if model.attention == "explicit" or (model.attention_dropout and not is_gpu):  # a CPU's kernel has no dropout
            copies = 3 if model.attention_dropout else 2
        n_weights = queries * model.n_heads * key_length
        return (2 * queries + 2 * keys) * d_model * element_size + n_weights * copies * element_size

    def self_attention(positions: int, length: int) -> int:
        rotated = 3 * positions * d_model * element_size if model.positions == "rotary" else 0
        return sublayer(positions) + attention(positions, positions, length) + rotated

    def feed_forward(positions: int) -> int:
        """Bytes for what the ReLU returns, and the same after dropout."""
        inner = element_size + (mask_size + element_size if model.activation_dropout else 0)
        return sublayer(positions) + positions * d_ff * inner

    encoder_layer = self_attention(source, batch.source) + feed_forward(source)
    cross_attention = sublayer(target) + attention(target, source, batch.source)
    decoder_layer = self_attention(target, batch.target) + cross_attention + feed_forward(target)

    embedding = 4 * vocab_size * d_model  # a gradient of the embedding matrix
    chunk = min(target, target // CHUNKS + 1 if is_gpu else CHUNK_ROWS) * vocab_size  # logits
    # Logits in float32, and in mixed precision also in 16 bits: a CPU keeps more copies of those.
    loss = 2 * target * d_model * element_size + embedding + (4 if not is_mixed else 6 if is_gpu else 12) * chunk
    backward = 2 * target * d_ff * element_size + embedding  # through the last feed-forward

    # the embeddings, with dropout
    activations = (source + target) * d_model * (element_size + (mask_size if model.dropout else 0))
    if training.activation_checkpointing:
        activations += n_layers * (source + target) * d_model * element_size  # each layer's input
        backward += decoder_layer  # recomputed
    else:
        activations += n_layers * (encoder_layer + decoder_layer)
    matrices = n_layers * (3 * 4 * d_model**2 + 2 * 2 * d_model * d_ff)  # of all attentions and feed-forwards
    if is_mixed:  # copies of the weights in the lower precision
        activations += 2 * matrices
        loss += 2 * 2 * vocab_size * d_model  # of the output layer's, and its gradient from one chunk

    parameters = 4 * model.n_parameters
    weights = parameters + (0 if model.positions == "learned" else 4 * model.max_length * d_model)
    gradients_preallocated = training.gradient_accumulation_steps > 1 or world_size > 1
    return MemoryEstimate(
        weights=weights,
        optimizer=2 * parameters - (4 * matrices if training.optimizer == "muon" else 0),
        averaging=weights if training.average_steps else 0,
        gradients=parameters,
        activations=activations,
        backward_start=max(loss, backward),
        backward_end=embedding * (2 if gradients_preallocated else 1),
        gradients_preallocated=gradients_preallocated,
    )


def check_memory(model: ModelConfig, training: TrainingConfig, device: Device, world_size: int = 1) -> None:
    """Refuse to train if a full micro-batch doesn't fit into the available memory.

    On a GPU, this happens only if small micro-batches don't fit either: the trainer halves them automatically.

    Raises:
        UserError: if it doesn't fit; the message gives the needed and the available memory, and a setting that helps.
    """
    available, is_gpu = available_bytes(device), device.type == "cuda"
    estimates = {}
    for doublings in range(8):
        steps = training.gradient_accumulation_steps * 2**doublings
        smaller = replace(training, gradient_accumulation_steps=steps)
        estimates[steps] = estimate_memory(model, smaller, device, world_size=world_size)
    needed = estimates[training.gradient_accumulation_steps]
    fitting = [steps for steps, estimate in estimates.items() if estimate.total <= available]
    if needed.total <= available or fitting and is_gpu:
        return
    advice = "choose a smaller model, or a smaller --training.batch-tokens"
    if fitting:
        advice = f"--training.gradient-accumulation-steps {fitting[0]} would need {estimates[fitting[0]]}"
    raise UserError(
        f"this model has {model.n_parameters:,} parameters and needs about {needed} to train; "
        f"this {'GPU' if is_gpu else 'machine'} has {readable_bytes(available)} free: {advice}"
    )


def peak_memory(work: Callable[[], object], device: Device) -> int:
    """Do some work and return the peak size of the tensors that it allocated, in bytes.

    The figure comes from PyTorch's allocators, not from the resident memory of the process, so it doesn't depend on
    what ran before. Earlier tensors don't count, and the work should not free them: on a GPU, the result would be too
    small.
    """
    if device.type == "cuda":
        x = torch.randn(64, 64, device=device.torch_device, requires_grad=True)
        (x @ x).sum().backward()  # allocates the workspaces of cuBLAS, which stay, so that they don't count
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # otherwise the profiler announces its start and its end
    with torch.autograd.profiler.profile(profile_memory=True) as profiler:
        work()
    events = profiler.kineto_results.events()
    return max(accumulate((event.nbytes() for event in events if event.name() == "[memory]"), initial=0))
