"""The figures of multi-head attention show the numbers of the package's attention."""

import torch

from transformer.attention import attention
from transformer.plots.multi_head_attention import format_number, multi_head_attention

WORDS = ["dog", "chases", "cat"]


def test_it_shows_the_results_of_attention() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 3, 2)
    w_output = torch.randn(4, 4)
    texts = [text.get_text() for text in multi_head_attention(WORDS, query, key, value, w_output).axes[0].texts]
    outputs, weights = attention(query, key, value)
    concatenated = outputs.transpose(0, 1).flatten(1)
    for table in (query, key, value, weights, concatenated, concatenated @ w_output):
        for number in table.flatten().tolist():
            assert format_number(number) in texts
    assert texts.count("chases") == 3 and {"head 1", "head 2", "concatenated", "projected"} <= set(texts)


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
