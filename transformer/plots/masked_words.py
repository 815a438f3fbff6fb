"""What models predict for a masked word of a sentence, which the reader chooses."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from transformer.plots import style

WIDTH = 220

Predictions = Mapping[str, Sequence[tuple[str, float]]]
"""For each sentence with a masked word, the most probable words and their probabilities, best first."""


def masked_word_explorer(
    models: Mapping[str, Predictions], correct: Mapping[str, str], description: str, start: str | None = None
) -> Any:
    """Return an Altair chart of each model's predictions, with a menu of the sentences.

    Args:
        models: the predictions of each model by its name, all for the same sentences.
        correct: for each sentence the word that was masked; its bars have another colour.
        description: the alt text.
        start: the sentence that is shown first; None: the first.
    """
    rows = [
        {"model": model, "sentence": sentence, "rank": rank, "word": word, "probability": round(probability, 3),
         "correct": word == correct[sentence]}
        for model, predictions in models.items()
        for sentence, words in predictions.items()
        for rank, (word, probability) in enumerate(words)
    ]  # fmt: skip
    sentences = list(correct)
    menu = alt.param(
        "sentence",
        value=start or sentences[0],
        bind=alt.binding_select(options=sentences, name="masked sentence "),
    )
    panels = []
    for model in models:
        bars = (
            alt.Chart(pd.DataFrame([row for row in rows if row["model"] == model]), title=model)
            .transform_filter("datum.sentence == sentence")
            .encode(
                alt.X("probability:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=3)),
                alt.Y("word:N", sort=alt.EncodingSortField("rank"), title=None),
                tooltip=[alt.Tooltip("word:N"), alt.Tooltip("probability:Q", format=".3f")],
            )
        )
        colour = alt.condition("datum.correct", alt.value(style.VALUE), alt.value(style.PLAIN))
        numbers = bars.mark_text(align="left", dx=4, fontSize=12).encode(text=alt.Text("probability:Q", format=".2f"))
        panels.append((bars.mark_bar().encode(color=colour) + numbers).properties(width=WIDTH, height=110))
    chart = alt.vconcat(*panels, description=description)
    return style.chart_style(chart.add_params(menu), side_by_side=True)
