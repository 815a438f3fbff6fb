import torch

from transformer.masks import causal_mask, padding_mask, target_mask


def test_padding_mask_hides_pad_keys_from_every_query() -> None:
    mask = padding_mask(torch.tensor([[5, 6, 0], [7, 0, 0]]), pad_id=0)
    assert mask.dtype == torch.bool and mask.shape == (2, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, True, False], [True, False, False]]


def test_causal_mask_is_a_lower_triangle_with_its_diagonal() -> None:
    assert causal_mask(3)[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_target_mask_combines_causal_and_padding_mask() -> None:
    mask = target_mask(torch.tensor([[1, 5, 0]]), pad_id=0)
    assert mask[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, False]]
