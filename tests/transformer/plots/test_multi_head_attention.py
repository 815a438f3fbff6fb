"""The figures of multi-head attention show the numbers of the package's attention."""

import torch

from transformer.attention import attention
from transformer.plots.multi_head_attention import (
    format_number,
    multi_head_attention,
    projection_matrices,
    split_into_heads,
)

WORDS = ["dog", "chases", "cat"]


def test_it_shows_the_results_of_attention() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 3, 2)
    w_output = torch.randn(4, 4)
    texts = [text.get_text() for text in multi_head_attention(WORDS, query, key, value, w_output).axes[0].texts]
    outputs, weights = attention(query, key, value)
    concatenated = outputs.transpose(0, 1).flatten(1)
    scores = query @ key.transpose(1, 2)
    for table in (query, key, value, scores, weights, concatenated, concatenated @ w_output):
        for number in table.flatten().tolist():
            assert format_number(number) in texts
    assert texts.count("chases") == 4 and {"head 1", "head 2", "concatenated", "projected"} <= set(texts)


def test_numbers_keep_the_shade_of_their_head() -> None:
    table = torch.arange(12).view(3, 4)
    for heads, mixed in ((table.unflatten(-1, (2, 2)).transpose(0, 1), False), (table.reshape(2, 3, 2), True)):
        (axes,) = split_into_heads(WORDS, table, heads, ("before", "after")).axes
        drawn = [text.get_text() for text in axes.texts if text.get_text().isdigit()]
        assert drawn == [str(int(number)) for number in (*table.flatten(), *heads.flatten())]
        shades = [patch.get_facecolor() for patch in axes.patches[12:]]  # the heads' cells, after the table's
        assert [len(set(shades[:6])), len(set(shades[6:]))] == ([2, 2] if mixed else [1, 1])


def test_the_columns_of_the_matrices_are_divided_among_the_heads() -> None:
    matrices = torch.arange(48.0).view(3, 4, 4)
    (axes,) = projection_matrices(["a", "b", "c", "d"], *matrices, n_heads=2).axes
    drawn = [float(text.get_text()) for text in axes.texts if text.get_text().isdigit()]
    assert drawn == [*torch.cat([m[:, half].flatten() for m in matrices for half in (slice(2), slice(2, 4))]).tolist()]
    texts = [text.get_text() for text in axes.texts]
    assert texts.count("head 1") == texts.count("head 2") == 3 and texts[:4] == ["a", "b", "c", "d"]


def test_numbers_are_formatted_briefly() -> None:
    assert [format_number(x) for x in (4.0, -1.0, 0.9412, -0.5, -0.001, 12.5, 10.25)] == [
        "4",
        "−1",
        ".94",
        "−.50",
        "0",
        "12.50",
        "10.25",
    ]
