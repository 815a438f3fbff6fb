import pytest
import torch
from torch import Tensor

from transformer.errors import UserError
from transformer.model import ModelConfig, Transformer


def test_shape_and_parameter_count_of_the_paper_base_model() -> None:
    with torch.device("meta"):
        model = Transformer(ModelConfig())
    d, ff, vocabulary = 512, 2048, 37_000
    attention = 4 * (d * d + d)
    feed_forward = d * ff + ff + ff * d + d
    encoder, decoder = attention + feed_forward + 2 * 2 * d, 2 * attention + feed_forward + 3 * 2 * d
    assert sum(p.numel() for p in model.parameters()) == vocabulary * d + 6 * (encoder + decoder) == 63_082_496


def test_forward_shape(tiny: Transformer, source: Tensor) -> None:
    assert tiny(source, torch.randint(4, 40, (6, 7))).shape == (6, 7, 40)


def test_a_token_changes_nothing_before_it(tiny: Transformer, source: Tensor) -> None:
    target = torch.randint(4, 40, (6, 8))
    before = tiny(source, target)
    for t in range(8):
        changed = target.clone()
        changed[:, t] = (changed[:, t] - 4 + 1) % 36 + 4
        after = tiny(source, changed)
        assert torch.equal(after[:, :t], before[:, :t])
        assert not torch.allclose(after[:, t], before[:, t])


def test_padding_moves_nothing(tiny: Transformer, source: Tensor) -> None:
    target = torch.randint(4, 40, (6, 8))
    padded_source = torch.cat([source, source.new_zeros(6, 5)], dim=1)
    padded_target = torch.cat([target, target.new_zeros(6, 3)], dim=1)
    torch.testing.assert_close(tiny(padded_source, padded_target)[:, :8], tiny(source, target), atol=1e-4, rtol=1e-4)


def test_the_encoder_without_positions_does_not_see_order(tiny: Transformer) -> None:
    tiny.positions.zero_()
    source, order = torch.randint(4, 40, (1, 9)), torch.randperm(9)
    memory, _ = tiny.encode(source)
    shuffled, _ = tiny.encode(source[:, order])
    torch.testing.assert_close(shuffled, memory[:, order], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoding_step_by_step_equals_all_at_once(norm: str, source: Tensor) -> None:
    model = Transformer(ModelConfig(40, 32, 4, 64, 2, norm=norm)).eval()  # type: ignore[arg-type]
    target = torch.randint(4, 40, (6, 8))
    memory, mask = model.encode(source)
    cache = model.start_cache(memory, mask, max_length=8)
    steps = torch.stack([model.decode_step(target[:, t], cache) for t in range(8)], dim=1)
    torch.testing.assert_close(steps, model(source, target), atol=1e-4, rtol=1e-4)


def test_tied_matrices_are_one_and_untied_three() -> None:
    config = ModelConfig(40, 32, 4, 64, 1)
    tied, untied = Transformer(config), Transformer(ModelConfig(40, 32, 4, 64, 1, tie_embeddings=False))
    assert tied.source_embedding.weight is tied.target_embedding.weight is tied.unembedding.weight
    difference = sum(p.numel() for p in untied.parameters()) - sum(p.numel() for p in tied.parameters())
    assert difference == 2 * 40 * 32


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"d_model": 30, "n_heads": 4}, "d_model=30, n_heads=4"),
        ({"dropout": 1.0}, "dropout"),
        ({"norm": "both"}, "norm must be"),
        ({"n_layers": 0}, "n_layers must be at least 1"),
    ],
)
def test_impossible_shapes_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ModelConfig(**wrong)  # type: ignore[arg-type]


def test_too_long_a_sentence_is_refused(tiny: Transformer) -> None:
    with pytest.raises(ValueError, match="at most 80 tokens; got 81"):
        tiny.encode(torch.full((1, 81), 5))
