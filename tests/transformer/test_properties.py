"""Properties that hold for every model and every sentence, whatever the weights."""

from functools import cache

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transformer.config import AttentionImplementation, ModelConfig, Norm, Positions
from transformer.inspection import record_attention
from transformer.model import Transformer

VOCABULARY = 40


@cache
def model_of(norm: Norm, positions: Positions, attention: AttentionImplementation) -> Transformer:
    torch.manual_seed(0)
    return Transformer(
        ModelConfig(VOCABULARY, 32, 4, 64, 2, norm=norm, positions=positions, attention=attention)
    ).eval()


MODELS = st.builds(
    model_of,
    st.sampled_from(["post", "pre"]),
    st.sampled_from(["sinusoidal", "learned", "rotary"]),
    st.sampled_from(["fused", "explicit"]),
)
SENTENCES = st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=12)


def row(ids: list[int]) -> Tensor:
    return torch.tensor([ids])


@given(MODELS, SENTENCES, SENTENCES, st.data())
def test_changing_a_token_does_not_change_earlier_outputs(
    model: Transformer, source: list[int], target: list[int], data: st.DataObject
) -> None:
    t = data.draw(st.integers(0, len(target) - 1))
    other = data.draw(st.integers(4, VOCABULARY - 1).filter(lambda token: token != target[t]))
    before = model(row(source), row(target))
    after = model(row(source), row([*target[:t], other, *target[t + 1 :]]))
    torch.testing.assert_close(after[:, :t], before[:, :t], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(after[:, t], before[:, t], atol=1e-3)


@given(MODELS, SENTENCES, SENTENCES, st.integers(0, 9), st.integers(0, 9))
def test_padding_does_not_change_the_output(
    model: Transformer, source: list[int], target: list[int], source_pads: int, target_pads: int
) -> None:
    padded = model(row(source + [0] * source_pads), row(target + [0] * target_pads))
    torch.testing.assert_close(padded[:, : len(target)], model(row(source), row(target)), atol=1e-5, rtol=1e-5)


@given(
    st.sampled_from(["post", "pre"]), SENTENCES.flatmap(lambda s: st.tuples(st.just(s), st.permutations(range(len(s)))))
)
def test_the_encoder_without_positions_is_permutation_equivariant(
    norm: Norm, sentence_and_order: tuple[list[int], list[int]]
) -> None:
    sentence, order = sentence_and_order
    model = without_positions(norm)
    memory, _ = model.encode(row(sentence))
    shuffled, _ = model.encode(row([sentence[i] for i in order]))
    torch.testing.assert_close(shuffled, memory[:, order], atol=1e-5, rtol=1e-5)


@cache
def without_positions(norm: Norm) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(ModelConfig(VOCABULARY, 32, 4, 64, 2, norm=norm)).eval()
    assert model.positions is not None
    model.positions.zero_()
    return model


@given(MODELS, SENTENCES, SENTENCES, st.integers(0, 5))
def test_attention_weights_sum_to_one_and_are_zero_on_padding(
    model: Transformer, source: list[int], target: list[int], pads: int
) -> None:
    with record_attention(model) as recorded:
        model(row(source + [0] * pads), row(target))
    for name, weights in recorded.items():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        if "decoder" not in name or "cross" in name:
            assert weights[..., len(source) :].eq(0).all()
        else:
            assert weights.triu(1).eq(0).all()
