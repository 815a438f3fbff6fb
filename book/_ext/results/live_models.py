"""The live translator's models: what 8-bit weights cost, and when the page reports that they are guessing."""

from pathlib import Path

from book._ext.results.scores import DETAILS
from book._ext.results.tables import ORIGIN, Part, folded, origin, read_results, table


def live_models(root: Path) -> list[Part]:
    """Return what 8-bit weights cost the live translator's models, and when the page reports that they are guessing."""
    models = read_results(root, "live")["models"]
    measured = {
        "sentences": [f"{model['sentences']:,}" for model in models.values()],
        "BLEU": [f"{model['bleu']:.2f}" for model in models.values()],
        "BLEU, 8 bits": [f"{model['bleu_8_bit']:.2f}" for model in models.values()],
        "threshold": [f"{model['threshold']:.2f}" for model in models.values()],
        "guesses: own text": [f"{model['guesses']['own']:.0%}" for model in models.values()],
        "guesses: other text": [f"{model['guesses']['unlike']:.0%}" for model in models.values()],
        "poor: below": [f"{model['poor']['below']:.0%}" for model in models.values()],
        "poor: above": [f"{model['poor']['above']:.0%}" for model in models.values()],
        "other text is": [f"`{model['unlike']}`" for model in models.values()],
    }
    unique = dict.fromkeys(model["signature"] for model in models.values())
    scores = table(["score", "signature"], [["BLEU", f"`{signature}`"] for signature in unique], kind="long-end")
    origins = table(
        ["model", *ORIGIN],
        [[f"`{name}`", *origin(model["provenance"])] for name, model in models.items()],
        kind="long-end",
    )
    return [
        table(["", *(f"`{name}`" for name in models)], [[what, *values] for what, values in measured.items()]),
        folded(DETAILS, scores, origins),
    ]
