"""What learners get wrong in the notebooks 06 to 10, and what the checks say about it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from exercises.checks import data_and_batching, full_model, label_smoothing, layers, subword_tokenization
from transformer.data.tokenizer import BOS, EOS, PAD

TOPICS = (layers, full_model, subword_tokenization, data_and_batching, label_smoothing)
BY_NAME = {name: exercise for module in TOPICS for name, exercise in module.topic.exercises.items()}
Rows = list[list[int]]


def said(name: str, answer: Callable[..., Any]) -> str:
    return str(BY_NAME[name].judge(answer))


def reference(name: str) -> Callable[..., Any]:
    return BY_NAME[name].reference


def centred_by(dims: Callable[[Tensor], Any], clamp: bool = False) -> Callable[..., Tensor]:
    def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
        centred = x - x.mean(dims(x), keepdim=True)
        variance = centred.square().mean(dims(x), keepdim=True)
        return centred / (variance.sqrt().clamp(min=eps) if clamp else (variance + eps).sqrt()) * gain + bias

    return layer_norm


def mean_over_positions(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred = x - x.mean([*range(1, x.dim())], keepdim=True)
    return centred / (x.var(-1, keepdim=True, correction=0) + eps).sqrt() * gain + bias


def by_clamped_deviation(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True).clamp(min=eps) * gain + bias


def counted(norms: int = 5, wide: int = 0) -> Callable[..., int]:
    """Count with so many norms in each pair of layers, and so many biases of width f where they should be d wide."""

    def count_parameters(d: int, f: int, n: int, v: int) -> int:
        feed_forward = 2 * d * f + f + d + wide * (f - d)
        return n * (12 * (d * d + d) + 2 * feed_forward + norms * 2 * d) + v * d

    return count_parameters


def learned_without_end(best: Callable[[dict[Any, int]], Any]) -> Callable[..., Any]:
    def learn(text: dict[str, int], n_merges: int) -> Any:
        words, counts, merges = [list(word) for word in text], list(text.values()), []
        for _ in range(n_merges):
            merges.append(best(reference("count_pairs")(words, counts)))
            words = [reference("merge_pair")(symbols, merges[-1]) for symbols in words]
        return merges

    return learn


def rarest_last(pairs: dict[Any, int]) -> Any:
    highest = max(pairs.values())
    return reference("best_pair")({pair: n for pair, n in pairs.items() if n == highest})


def first_of_sorted(pairs: dict[Any, int]) -> Any:
    return sorted(pairs, key=lambda pair: (-pairs[pair], len("".join(pair)), "".join(pair)))[0]


def segmented_longest_first(word: str, merges: Any) -> list[str]:
    symbols = list(word)
    for pair in sorted(merges, key=lambda pair: len("".join(pair)), reverse=True):
        symbols = reference("merge_pair")(symbols, pair)
    return symbols


def with_zeros(words: list[list[str]], counts: list[int]) -> dict[Any, int]:
    symbols = {symbol for word in words for symbol in word}
    found = {(a, b): 0 for a in symbols for b in symbols}
    return found | dict(reference("count_pairs")(words, counts))


def clean_with_set(pairs: Any, max_words: int, max_ratio: float) -> Any:
    return sorted(set(reference("clean_pairs")(pairs, max_words, max_ratio)), reverse=True)


def padded(rows: Rows) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def batch(
    source: Callable[[list[int]], list[int]] = lambda row: [*row, EOS],
    decoder_input: Callable[[list[int]], list[int]] = lambda row: [BOS, *row],
    labels: Callable[[list[int]], list[int]] = lambda row: [*row, EOS],
) -> Callable[[Rows, Rows], tuple[Tensor, ...]]:
    def training_batch(sources: Rows, targets: Rows) -> tuple[Tensor, ...]:
        parts = ((source, sources), (decoder_input, targets), (labels, targets))
        return tuple(padded([*map(change, rows)]) for change, rows in parts)

    return training_batch


def batch_with_late_end(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    source, decoder_input, _ = reference("training_batch")(sources, targets)
    labels = F.pad(padded(targets), (0, 1), value=EOS)
    return source, decoder_input, labels


def share_of_slices(first: Callable[[list[int]], int], last: Callable[[list[int]], int]) -> Callable[..., float]:
    def padding_share(lengths: list[int], batches: Rows) -> float:
        positions = sum(len(b) * max(lengths[first(b) : last(b) + 1]) for b in batches)
        return (positions - sum(lengths)) / positions

    return padding_share


def read_in_a_loop(start: int = 0, forward: int = 1, length: int = 0) -> Callable[..., list[int]]:
    """Read batch by batch, starting so many too late, moving on by so many, with epochs of a fixed length."""

    def read_on(order: Any, epoch: int, step: int, count: int) -> list[int]:
        step, batches = step + start, []
        while len(batches) < count:
            if step >= (length or len(order(epoch))):
                epoch, step = epoch + 1, 0
            batches.append(order(epoch)[step])
            step += forward
        return batches

    return read_on


def read_from_before(order: Any, epoch: int, step: int, count: int) -> list[int]:
    batches = order(epoch)[step - 1 :]
    while len(batches) < count:
        epoch += 1
        batches = [*batches, *order(epoch)]
    return list(batches[:count])


def loss_of_clamped(small: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda logits, target: -logits.softmax(-1).clamp(min=small).gather(1, target[:, None])[:, 0].log()


def smoothed_loss_of_clamped(small: float) -> Callable[..., Tensor]:
    def smoothed_loss(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
        q = reference("smoothed_target")(target, logits.size(1), smoothing)
        return -(q * logits.softmax(-1).clamp(min=small).log()).sum(-1)  # type: ignore[no-any-return]

    return smoothed_loss


def filled(others: Callable[[int, float], float], right: Callable[[float], float]) -> Callable[..., Tensor]:
    """A target with one number for the right token and another for all others."""

    def smoothed_target(target: Tensor, vocab_size: int, smoothing: float) -> Tensor:
        q = torch.full((len(target), vocab_size), others(vocab_size, smoothing))
        q[torch.arange(len(target)), target] = right(smoothing)
        return q

    return smoothed_target


def mean_or(nothing: Any) -> Callable[..., Any]:
    def mean_loss(losses: Tensor, target: Tensor, pad_id: int) -> Any:
        real = target != pad_id
        return losses[real].mean() if real.any() else nothing

    return mean_loss


@pytest.mark.parametrize(
    ("name", "answer", "begins"),
    [
        ("feed_forward", lambda x, w, b, v, c: F.linear(F.linear(x, w, b).relu(), v, c), "weights in the shape that"),
        ("feed_forward", lambda x, w, b, v, c: (x @ w).relu() @ v, "both biases left out"),
        ("layer_norm", centred_by(lambda x: -1, clamp=True), "ε as a lower bound"),
        ("layer_norm", centred_by(lambda x: 0), "over the first axis"),
        ("layer_norm", centred_by(lambda x: tuple(range(1, x.dim()))), "over all axes but the first\nYour result is"),
        ("layer_norm", centred_by(lambda x: (-2, -1)), "over the positions and the features"),
        ("layer_norm", mean_over_positions, "right for a matrix only"),
        ("layer_norm", by_clamped_deviation, "divided by d_model - 1, and ε as a lower bound"),
        ("pre_norm", lambda x, sublayer, norm: x + sublayer(norm(norm(x))), "normalised twice"),
        ("post_norm", lambda x, sublayer, norm: norm(norm(x + sublayer(x))), "normalised twice"),
        ("unembed", lambda states, table: states @ F.normalize(table, dim=-1).T, "rows of length one"),
        ("count_parameters", counted(norms=4), "a decoder norm or a bias"),
        ("count_parameters", counted(norms=6), "a norm or a bias of the feed-forward networks too many"),
        ("count_parameters", counted(wide=1), "both biases of the feed-forward network of size f"),
        ("memory", lambda n: (16 * n / 1e9, 2 * n / 1e9), "gigabytes instead of bytes"),
        ("memory", lambda n: (16 * n / 1024**3, 2 * n / 1024**3), "gibibytes instead of bytes"),
        ("memory", lambda n: (8 * n, 4 * n), "8 bytes per parameter in training, and inference in float32\n"),
        ("memory", lambda n: (12 * n, n), "three numbers per parameter instead of four, and one byte"),
        ("learn", learned_without_end(reference("best_pair")), "it goes on when no pairs are left"),
        ("learn", learned_without_end(rarest_last), "the maximum taken when no pairs are left"),
        ("learn", learned_without_end(first_of_sorted), "the first entry taken when no pairs are left"),
        ("segment", segmented_longest_first, "the longest merges first"),
        ("count_pairs", with_zeros, "entries of 0\nEverything in your dict is right, but it also has keys"),
        ("learn", lambda *a: [list(pair) for pair in reference("learn")(*a)], "a list instead of a tuple"),
        ("best_pair", lambda pairs: list(reference("best_pair")(pairs)), "a list instead of a tuple"),
        ("clean_pairs", lambda *a: [list(pair) for pair in reference("clean_pairs")(*a)], "a list instead of a tuple"),
        ("clean_pairs", clean_with_set, "the pairs in another order"),
        ("training_batch", batch(labels=lambda row: row), "no EOS in the labels"),
        ("training_batch", batch(labels=lambda row: [BOS, *row]), "the decoder input copied into the labels"),
        ("training_batch", batch(decoder_input=lambda row: [*row, EOS]), "not shifted"),
        ("training_batch", batch(lambda row: row, labels=lambda row: row), "no EOS in the source, and no EOS in the"),
        ("training_batch", batch_with_late_end, "EOS after the padding in the labels"),
        ("padding_share", share_of_slices(lambda b: b[0], lambda b: b[-1]), "a slice from the first index"),
        ("padding_share", share_of_slices(min, max), "a slice from the smallest index"),
        ("read_on", read_in_a_loop(length=3), "three batches in every epoch"),
        ("read_on", read_in_a_loop(forward=0), "the step never moves on"),
        ("read_on", read_from_before, "a slice that starts one batch too early"),
        ("read_on", read_in_a_loop(start=-1), "an index that starts one batch too early"),
        ("cross_entropy", loss_of_clamped(1e-9), "probabilities kept at 1e-09 or more"),
        ("smoothed_loss", smoothed_loss_of_clamped(1e-9), "probabilities kept at 1e-09 or more"),
        ("smoothed_target", filled(lambda v, e: e, lambda e: 1 - e), "rows that don't sum to one"),
        ("smoothed_target", filled(lambda v, e: (1 - e) / (v - 1), lambda e: e), "the right token gets the least"),
        ("smoothed_target", filled(lambda v, e: 1 - e, lambda e: e), "the right token gets the least"),
        ("gradient", lambda z, q: z.softmax(-1) * (1 - z.softmax(-1)) - q, "the derivative of the softmax"),
        ("mean_loss", mean_or(0), "a plain 0 for a batch without real tokens"),
        ("mean_loss", mean_or(0.0), "a plain 0 for a batch without real tokens"),
        ("mean_loss", mean_or(torch.tensor(0.0)), "a result without a gradient"),
    ],
)  # fmt: skip
def test_what_learners_write_is_called_by_its_name(name: str, answer: Callable[..., Any], begins: str) -> None:
    assert said(name, answer).startswith(begins)


def test_rows_of_a_target_are_told_their_sum() -> None:
    all_of_it = said("smoothed_target", filled(lambda v, e: e, lambda e: 1 - e))
    assert "With a vocabulary of 4 tokens and ε = 0.2, each of your rows sums to 1.4." in all_of_it
    assert "sum" not in said("smoothed_target", filled(lambda v, e: (1 - e) / (v - 1), lambda e: e))


def test_a_plain_number_is_told_at_once_that_it_has_no_gradient() -> None:
    message = said("mean_loss", mean_or(0))
    assert "a Python number" in message and "computed from `losses`" in message


def test_no_loss_of_an_example_is_negative() -> None:
    inputs = [inputs["losses"] for inputs in BY_NAME["mean_loss"]._cases]
    assert min(losses.min() for losses in inputs) >= 0 and len({float(losses.sum()) for losses in inputs}) > 6


def test_a_question_is_asked_once() -> None:
    def segment(word: str, merges: Any) -> Any:
        return reference("segment")(word, merges) if merges else min([])

    message = said("segment", segment)
    assert "only where `merges` is empty." in message and message.count("What should happen then?") == 1


def test_two_unrelated_numbers_are_not_compared() -> None:
    def read_on(order: Any, epoch: int, step: int, count: int) -> Any:
        return reference("read_on")(order, epoch, step, count)[:: -1 if epoch == step else 1]

    assert "only where" not in said("read_on", read_on)


def test_a_whole_number_as_a_float_is_told_about_the_division() -> None:
    message = said("count_parameters", lambda d, f, n, v: reference("count_parameters")(d, f, n, v) / 1)
    assert "`//` divides one int by another" in message


def test_a_distribution_of_pytorch_is_no_answer() -> None:
    def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
        return -torch.distributions.Categorical(logits=logits).log_prob(target)

    assert (
        said("cross_entropy", cross_entropy)
        .splitlines()[1]
        .startswith("Your code calls a function of `torch.distributions.")
    )


def test_a_loop_over_epochs_that_never_ends_is_explained() -> None:
    def read_on(order: Any, epoch: int, step: int, count: int) -> list[int]:
        batches: list[int] = []
        while len(batches) < count:
            if step < len(order(epoch)):
                batches.append(order(epoch)[step])
                step += 1
            else:
                epoch += 1  # the step isn't set back to 0
        return batches

    text = said("read_on", read_on)
    assert (
        text.startswith("it doesn't stop by itself\nYour code has asked for a hundred epochs") and "Error" not in text
    )
