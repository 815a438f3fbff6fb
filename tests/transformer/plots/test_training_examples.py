"""The training examples of a sentence: what each position can see, and what it predicts."""

from transformer.plots.training_examples import training_examples


def test_each_row_shows_the_tokens_up_to_its_position_and_its_label() -> None:
    (axes,) = training_examples(["<bos>", "it", "was"], ["IT", "WAS", "END"]).axes
    texts = {(text.get_position()[1], text.get_text()) for text in axes.texts}
    for row, (visible, label) in enumerate(
        [(["<bos>"], "IT"), (["<bos>", "it"], "WAS"), (["<bos>", "it", "was"], "END")]
    ):
        words = {text for y, text in texts if y == row + 0.5} - {str(row), "×", ""}
        assert words == {*visible, label}
    assert sum(text.get_text() == "×" for text in axes.texts) == 3
    filled = [patch.get_facecolor()[3] > 0 for patch in axes.patches if hasattr(patch, "get_xy")]
    assert filled.count(True) >= 6
