"""What learners write in the notebooks about a first translation and about a model of their own, and what is said."""

import copy
import math
import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sacrebleu import corpus_bleu
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from exercises.checks import capstone, train_your_own
from tests.exercises.test_checks import message
from transformer.config import ModelConfig
from transformer.layers import EncoderLayer

PAD, EOS, UNK, N_SPECIAL = 0, 2, 3, 4


def first_line(name: str, answer: Any) -> str:
    return message(name, answer).splitlines()[0].removeprefix(f"✗ {name}: ")


# A first translation --------------------------------------------------------------------------------------------------


def vocabulary_of(words: Any, key: Any = lambda word: word, first: int = N_SPECIAL, spare: int = 0) -> Any:
    def answer(sentences: list[str], size: int) -> dict[str, int]:
        counts: dict[str, int] = {}
        for word in words(sentences):
            counts[word] = counts.get(word, 0) + 1
        ranked = sorted(counts, key=lambda word: (-counts[word], key(word)))
        return {word: first + i for i, word in enumerate(ranked[: size - N_SPECIAL + spare])}

    return answer


def all_words(sentences: list[str]) -> list[str]:
    return " ".join(sentences).split()


def ids_by_place(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    words = list(vocabulary)
    return [N_SPECIAL + words.index(word) if word in words else UNK for word in sentence.split()] + [EOS]


def ids_of_different_words(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [vocabulary.get(word, UNK) for word in dict.fromkeys(sentence.split())] + [EOS]


def ids_until_the_first_return(sentence: str, vocabulary: dict[str, int]) -> Any:
    ids = []
    for word in sentence.split():
        ids.append(vocabulary.get(word, UNK))
        return [*ids, EOS]
    return None


def ids_appended(sentence: str, vocabulary: dict[str, int]) -> Any:
    return [vocabulary.get(word, UNK) for word in sentence.split()].append(EOS)


def rows_by_one_hot(ids: Tensor, table: Tensor) -> Tensor:
    return F.one_hot(ids).float() @ table


def probable_by_lookup(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    p = logits.exp() / logits.exp().sum()
    ids = [p.tolist().index(x) for x in sorted(p.tolist(), reverse=True)[:n]]
    return p[ids], torch.tensor(ids)


def search(finished: Any, reads: Any = lambda prefix, new: prefix + new, keep: bool = True) -> Any:
    def answer(model: Any, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
        new: list[int] = []
        for _ in range(max_new_tokens):
            token = int(model(reads(prefix, new)).argmax())
            new += [token] if keep else []
            if finished(token, prefix + new, eos):
                break
        return prefix + new

    return answer


def is_eos(token: int, tokens: list[int], eos: int) -> bool:
    return token == eos


@pytest.mark.parametrize(
    ("name", "answer", "title"),
    [
        ("build_vocabulary", vocabulary_of(lambda s: "".join(s).split()), "the sentences joined without a space"),
        ("build_vocabulary", vocabulary_of(lambda s: s), "whole sentences counted"),
        ("build_vocabulary", vocabulary_of(lambda s: s[0].split()), "only the first sentence"),
        ("build_vocabulary", vocabulary_of(all_words, key=str.lower), "ties sorted without capitals"),
        ("build_vocabulary", vocabulary_of(all_words, first=1), "ids from 1"),
        ("build_vocabulary", vocabulary_of(all_words, spare=1), "one word too many"),
        ("encode_sentence", ids_by_place, "the position in the dict instead of the id"),
        ("encode_sentence", ids_of_different_words, "each word only once"),
        ("encode_sentence", ids_until_the_first_return, "only the first word"),
        ("look_up", rows_by_one_hot, "only as many rows as the ids need"),
        ("most_probable", probable_by_lookup, "the same token several times"),
        ("continue_prefix", search(lambda token, tokens, eos: eos in tokens),
         "stops after a token if the prefix contains eos"),
        ("continue_prefix", search(is_eos, reads=lambda prefix, new: new), "reads only the new tokens"),
        ("continue_prefix", search(is_eos, keep=False), "nothing appended"),
        ("path_lengths", lambda distance, k: (distance, float(-(-distance // (k // 2))), 1),
         "rounded up, but still a float"),
        ("path_lengths", lambda distance, k: (distance, distance // k // 2, 1), "divided by k and by 2"),
    ],
)  # fmt: skip
def test_a_slip_is_called_by_its_name(name: str, answer: Any, title: str) -> None:
    assert first_line(name, answer) == title


def test_a_method_that_returns_nothing_is_a_likely_reason_for_none_where_a_list_is_expected() -> None:
    said = message("encode_sentence", ids_appended).splitlines()
    assert said[0].endswith("it returns None: is there a return statement at the end?")
    assert said[1].startswith("Or do you return what a method such as `append` or `sort` returns?")
    assert "append" not in message("look_up", lambda ids, table: None)


# A model of one's own -------------------------------------------------------------------------------------------------


def test_what_should_be_a_list_of_layers_is_described() -> None:
    class OneNorm(train_your_own.DecoderLayer):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            self.norms = nn.LayerNorm(config.d_model)  # type: ignore[assignment]

    class Generated(train_your_own.Transformer):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            del self.decoder
            self.decoder = (train_your_own.DecoderLayer(config) for _ in range(config.n_layers))  # type: ignore[assignment]

    class EncoderTwice(train_your_own.Transformer):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            self.decoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))

    class OneModule(train_your_own.Transformer):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            self.unembedding = self.embedding  # type: ignore[assignment]

    assert first_line("DecoderLayer", OneNorm) == "`norms` is a single module"
    assert first_line("Transformer", Generated) == "`decoder` is a generator"
    assert first_line("Transformer", EncoderTwice) == "`decoder` has layers of the other kind"
    assert first_line("Transformer", OneModule) == "the embedding is also the output layer"
    layer = train_your_own.DecoderLayer(ModelConfig(11, 4, 2, 6, 1, norm="pre"))
    assert first_line("DecoderLayer", layer) == "it is a module, but should be a class"


def test_an_error_does_not_show_the_names_of_the_checks_own_functions() -> None:
    class NotCalled(train_your_own.Transformer):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            self.decoder = nn.ModuleList([train_your_own.given.DecoderLayer])  # type: ignore[list-item]

    said = first_line("Transformer", NotCalled)
    assert said == "it stopped with TypeError: given.DecoderLayer is not a Module subclass"
    said = first_line("fit", lambda model, optimizer, epoch_batches, loss_of, *rest: loss_of(1, 2, 3))
    assert said == "it stopped with TypeError: loss_of() takes 2 positional arguments but 3 were given"


@pytest.mark.parametrize(
    ("deviation", "title"),
    [
        (lambda d: 1 / d, "the standard deviation 1 / d_model"),
        (lambda d: d**0.5, "the standard deviation √d_model"),
        (lambda d: 0.02, "the standard deviation 0.02"),
        (lambda d: 1, "embeddings as PyTorch initialises them"),
    ],
)
def test_a_wrong_deviation_of_the_embeddings_is_named_whatever_is_drawn(deviation: Any, title: str) -> None:
    class Model(train_your_own.Transformer):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            self.embedding.weight.data = deviation(config.d_model) * torch.randn(config.vocab_size, config.d_model)

    assert first_line("Transformer", Model) == title


def batches_with(change: Any = lambda batches: batches, is_new: Any = None, first: Any = sorted) -> Any:
    def answer(pairs: Any, max_tokens: int, seed: int) -> Any:
        groups: list[Any] = [[]]
        for pair in first(pairs, key=lambda pair: max(map(len, pair))):
            would_be = (len(groups[-1]) + 1) * max(map(len, pair))
            if would_be > max_tokens and (groups[-1] or is_new == "whether empty or not"):
                groups.append([])
            groups[-1].append(pair)
        random.Random(seed).shuffle(groups)
        return change([tuple(map(padded, zip(*group, strict=True))) for group in groups])

    return answer


def padded(rows: Any) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


def as_lists(batches: Any) -> Any:
    return [list(batch) for batch in batches]


def test_batches_may_be_lists() -> None:
    assert train_your_own.topic.exercises["token_batches"].judge(batches_with(as_lists)) is None


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        (batches_with(is_new="whether empty or not"), "an empty batch"),
        (batches_with(lambda batches: [source for source, _ in batches]), "a batch isn't a pair"),
        (batches_with(lambda batches: [*map(list, zip(*batches, strict=True))]), "two lists instead of one"),
        (batches_with(lambda batches: [(s.tolist(), t.tolist()) for s, t in batches]), "a batch isn't made of tensors"),
        (batches_with(lambda batches: [(s.float(), t.float()) for s, t in batches]), "floats instead of ids"),
        (
            batches_with(lambda batches: [tuple(x.masked_fill(x == PAD, EOS) for x in b) for b in batches]),
            "padded with eos",
        ),
        (
            batches_with(lambda batches: [tuple(x.masked_fill(x == PAD, -100) for x in b) for b in batches]),
            "padded with -100",
        ),
        (batches_with(first=lambda pairs, key: pairs), "not sorted"),
        (lambda *inputs: None, "it returns None: is there a return statement at the end?"),
    ],
)
def test_batches_of_the_wrong_form_are_described(answer: Any, title: str) -> None:
    assert first_line("token_batches", answer) == title


def loss_with(
    labels: Any = lambda target: target[:, 1:], count: Any = None, once: bool = False, **settings: Any
) -> Any:
    def answer(model: nn.Module, batches: Any) -> float:
        mode = model.training
        model.eval()
        total, n = 0.0, 0
        with torch.no_grad():
            for source, target in batches:
                logits, y = model(source, target[:, :-1]), labels(target)
                total += F.cross_entropy(logits.mT, y, reduction="sum", **settings).item()
                n += int((y != PAD).sum()) if count is None else count(source, target)
                if once:
                    break
        model.train(mode)
        return total / n

    return answer


def fitted(validations: int = 1, epochs: int = 0, reset: Any = "each batch") -> Any:
    def answer(
        model: Any, optimizer: Any, epoch_batches: Any, loss_of: Any, validate: Any, n: int, patience: int
    ) -> Any:
        train, validation, best = [], [], None  # type: ignore[var-annotated]
        for epoch in range(n + epochs):
            model.train()
            optimizer.zero_grad()
            losses = []
            for batch in epoch_batches(epoch):
                loss = loss_of(model, batch)
                if reset == "each batch":
                    optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                losses.append(loss.item())
            train.append(sum(losses) / len(losses))
            validation.append([validate(model) for _ in range(validations)][-1])
            if validation[-1] < min([math.inf, *validation[:-1]]):
                best, last = copy.deepcopy(model.state_dict()), epoch
            elif epoch - last == patience:
                break
        model.load_state_dict(best)
        return train, validation

    return answer


def fitted_with_list(listed: Any) -> Any:
    """The mean loss of an epoch as the sum over the length of what ``listed`` makes of the batches."""

    def answer(
        model: Any, optimizer: Any, epoch_batches: Any, loss_of: Any, validate: Any, n: int, patience: int
    ) -> Any:
        def batches_of(epoch: int) -> Any:
            batches = listed(epoch_batches(epoch))
            assert len(batches)
            return batches

        return fitted()(model, optimizer, batches_of, loss_of, validate, n, patience)

    return answer


def test_batches_are_an_iterable_and_need_not_have_a_length() -> None:
    fit = train_your_own.topic.exercises["fit"]
    assert fit.judge(fitted_with_list(list)) is None
    said = str(fit.judge(fitted_with_list(lambda batches: batches))).splitlines()
    assert said[0] == "it stopped with TypeError: object of type 'Loader' has no len()"
    assert any(line.startswith("This is an iterable. A loop can go through its entries") for line in said)


@pytest.mark.parametrize(
    ("number", "title"),
    [
        (0, "the normalised x added to self-attention"),
        (1, "the normalised x added to cross-attention"),
        (2, "the normalised x added to the feed-forward network"),
    ],
)
def test_a_residual_connection_from_the_normalised_x_is_named(number: int, title: str) -> None:
    class Layer(train_your_own.DecoderLayer):
        def forward(self, x: Tensor, memory: Tensor, own: Tensor, memory_mask: Tensor) -> Tensor:
            sublayers = (
                lambda y: self.self_attention(y, mask=own),
                lambda y: self.cross_attention(y, memory, mask=memory_mask),
                self.feed_forward,
            )
            for i, sublayer in enumerate(sublayers):
                y = self.norms[i](x)
                x = (y if i == number else x) + self.dropout(sublayer(y))
            return x

    assert first_line("DecoderLayer", Layer) == title


def test_dropout_that_is_never_switched_off_is_named() -> None:
    class HalfDropped(train_your_own.DecoderLayer):
        def residual(self, x: Tensor, norm: nn.Module, sublayer: Any) -> Tensor:
            return x + F.dropout(sublayer(norm(x)))

    class Dropped(train_your_own.DecoderLayer):
        def residual(self, x: Tensor, norm: nn.Module, sublayer: Any) -> Tensor:
            return x + nn.Dropout(self.dropout.p)(sublayer(norm(x)))

    assert first_line("DecoderLayer", HalfDropped) == "always half of the entries dropped"
    assert first_line("DecoderLayer", Dropped) == "dropout in evaluation mode as well"


@pytest.mark.parametrize(
    ("epoch", "title"),
    [
        (lambda train, validation: validation.index(max(validation)), "the highest validation loss is marked"),
        (lambda train, validation: train.index(max(train)), "the highest training loss is marked"),
        (lambda train, validation: 0, "the first epoch is marked"),
        (lambda train, validation: validation.index(min(validation)) + 1, "the line is one epoch too late"),
    ],
)
def test_a_line_at_another_epoch_is_named(epoch: Any, title: str) -> None:
    def plotted(axes: Any, train: list[float], validation: list[float]) -> None:
        train_your_own._draw_losses(axes, train, validation, marked=False)
        axes.axvline(epoch(train, validation) + 1)

    assert first_line("plot_losses", plotted) == title


def test_curves_with_other_labels_are_named() -> None:
    def plotted(axes: Any, train: list[float], validation: list[float]) -> None:
        train_your_own._draw_losses(axes, train, validation, labels=("train", "val"))

    assert first_line("plot_losses", plotted) == "the curves have other labels"


def bleu_of(decoded: Any) -> Any:
    def answer(model: nn.Module, batches: Any, translate: Any, decode: Any) -> float:
        model.eval()
        hypotheses = [decoded(decode, ids) for source, _ in batches for ids in translate(model, source)]
        rows = [[i for i in row if i > EOS] for _, target in batches for row in target.tolist()]
        return corpus_bleu(hypotheses, [[decoded(decode, row) for row in rows]]).score

    return answer


def test_the_answers_of_these_tests_are_right_but_for_their_slips() -> None:
    for name, answer in (("validation_loss", loss_with(ignore_index=PAD)), ("fit", fitted())):
        assert train_your_own.topic.exercises[name].judge(answer) is None
    bleu = bleu_of(lambda decode, ids: decode(ids))
    assert train_your_own.topic.exercises["bleu_score"].judge(bleu) is None


@pytest.mark.parametrize(
    ("name", "answer", "title"),
    [
        ("validation_loss", loss_with(), "padding in the sum only"),
        ("validation_loss", loss_with(ignore_index=PAD, count=lambda source, target: len(source)),
         "divided by the number of sentences"),
        ("validation_loss", loss_with(ignore_index=PAD, once=True), "only the first batch"),
        ("validation_loss", loss_with(ignore_index=PAD, label_smoothing=0.1),
         "label smoothing in the validation loss"),
        ("fit", fitted(epochs=-1), "the last epoch left out"),
        ("fit", fitted(validations=2), "validated too often"),
        ("fit", fitted(epochs=1), "one epoch too many"),
        ("fit", fitted(reset="each epoch"), "gradients reset once per epoch"),
        ("bleu_score", bleu_of(lambda decode, ids: " ".join(map(str, ids))), "ids instead of words"),
    ],
)  # fmt: skip
def test_a_slip_in_the_training_is_called_by_its_name(name: str, answer: Any, title: str) -> None:
    assert first_line(name, answer) == title


def test_the_image_that_is_seen_counts() -> None:
    def drawn_twice(axes: Any, weights: Tensor, source: list[str], target: list[str]) -> None:
        train_your_own._draw_attention(axes, weights, source, target)
        axes.imshow(weights.numpy())

    def as_a_mesh(axes: Any, weights: Tensor, source: list[str], target: list[str]) -> None:
        axes.pcolormesh(weights.numpy(), vmin=0, vmax=1)

    assert first_line("plot_attention", drawn_twice) == "each image has its own scale"
    said = message("plot_attention", as_a_mesh).splitlines()
    assert said[0] == "✗ plot_attention: no image in the axes"
    assert said[1].startswith("Your code draws the weights in another way, such as with `pcolormesh`")
    assert "pcolormesh" not in message("plot_attention", lambda axes, weights, *labels: axes.plot(weights))


# The capstone ---------------------------------------------------------------------------------------------------------


def attend_with(weights_of: Any) -> Any:
    def answer(part: Any, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (
            layer(side).unflatten(-1, (part.n_heads, -1)).transpose(1, 2)
            for layer, side in ((part.query, x), (part.key, memory), (part.value, memory))
        )
        weights = weights_of(query @ key.mT / math.sqrt(query.size(-1)), mask)
        return part.output((weights @ value).transpose(1, 2).flatten(2))

    return answer


@pytest.mark.parametrize(
    ("weights_of", "title"),
    [
        (lambda s, mask: s.masked_fill(~mask, -20).softmax(-1), "a low number instead of minus infinity"),
        (lambda s, mask: s.masked_fill(~mask, -100).softmax(-1), "a low number instead of minus infinity"),
        (lambda s, mask: (s - 20.0 * ~mask).softmax(-1), "a low number added"),
        (lambda s, mask: (s - 100.0 * ~mask).softmax(-1), "a low number added"),
        (lambda s, mask: (s + ~mask * -math.inf).softmax(-1), "minus infinity times 0"),
    ],
)
def test_a_mask_that_large_scores_break_through_is_refused(weights_of: Any, title: str) -> None:
    assert first_line("attend", attend_with(weights_of)) == title


@pytest.mark.parametrize("low", [-math.inf, -1e9, -1e4])
def test_a_mask_of_very_low_scores_is_accepted(low: float) -> None:
    assert capstone.attend.judge(attend_with(lambda s, mask: s.masked_fill(~mask, low).softmax(-1))) is None


def greedy_until(is_over: Any) -> Any:
    def answer(model: Any, source: Tensor, limit: int) -> list[list[int]]:
        target = torch.ones(len(source), 1, dtype=torch.int64)
        for _ in range(limit):
            newest = capstone.given.next_token_logits(model, source, target)[:, -1].argmax(-1)
            target = torch.cat([target, newest[:, None]], 1)
            if is_over(target):
                break
        rows = target[:, 1:].tolist()
        return [row[: row.index(EOS)] if EOS in row else row for row in rows]

    return answer


def one_after_the_other(model: Any, source: Tensor, limit: int) -> list[list[int]]:
    everybody = greedy_until(lambda target: EOS in target[0].tolist())
    return [everybody(model, row[None], limit)[0] for row in source]


def test_a_translation_ends_when_its_last_sentence_has_ended() -> None:
    for right in (greedy_until(lambda target: (target == EOS).any(1).all()), one_after_the_other):
        assert capstone.translate.judge(right) is None and capstone.translate.is_right(right)
    for slip in (lambda target: False, lambda target: (target[:, -1] == EOS).all()):
        assert first_line("translate", greedy_until(slip)) == "it goes on after the last sentence has ended"
        assert not capstone.translate.is_right(greedy_until(slip))
