"""The chart of sampling has the whole vocabulary, follows the rules of `decoding.sample`, and fits a phone."""

import math
from itertools import pairwise

import pytest
import torch

from transformer.plots.sampling import N_BARS, sampling_explorer

WORDS = [f"word{i}" for i in range(30)]
LOGITS = torch.randn(2, 30, generator=torch.Generator().manual_seed(0))
SPEC = sampling_explorer(LOGITS, ["der", "die"], WORDS, "move the sliders").to_dict()
(ROWS,) = SPEC["datasets"].values()


def test_it_follows_the_page_and_fits_a_phone() -> None:
    assert SPEC["description"] == "move the sliders"
    assert SPEC["usermeta"]["embedOptions"]["renderer"] == "svg" and SPEC["config"]["background"] == "transparent"
    assert all(part["width"] <= 250 for part in SPEC["vconcat"])


def test_its_sliders_are_the_arguments_of_sample() -> None:
    binds = {one["name"]: one["bind"] for one in SPEC["params"] if "bind" in one}
    assert set(binds) == {"prefix", "temperature", "top_k", "top_p"}
    assert binds["top_k"]["options"] == [0, 1, 2, 3, 5, 10, 20], "50 is more than the size of the vocabulary"
    assert binds["temperature"]["min"] > 0 and binds["top_p"]["max"] == 1


def test_every_token_has_its_rank_and_at_temperature_one_the_softmax_is_the_models() -> None:
    for i, prefix in enumerate(("der", "die")):
        rows = [row for row in ROWS if row["prefix"] == prefix]
        assert [row["rank"] for row in rows] == list(range(30))
        probabilities = torch.tensor([row["logit"] for row in rows]).softmax(0)
        ids = [WORDS.index(row["token"]) for row in rows]
        assert probabilities.tolist() == pytest.approx(LOGITS[i].softmax(0)[ids].tolist(), abs=1e-3)


def test_the_rows_of_a_large_vocabulary_have_its_probabilities_at_every_temperature() -> None:
    logits = 3 * torch.randn(1, 5000, generator=torch.Generator().manual_seed(1))
    (rows,) = sampling_explorer(logits, ["der"], [f"word{i}" for i in range(5000)], "").to_dict()["datasets"].values()
    assert len(rows) < 400 and sum(row["n"] for row in rows) == 5000
    ordered = logits[0].sort(descending=True).values
    for temperature in (0.5, 1.0, 2.0):
        mass = torch.tensor([row["n"] * math.exp(row["logit"] / temperature) for row in rows])
        expected = (ordered / temperature).softmax(0)
        assert (mass / mass.sum())[:200].tolist() == pytest.approx(expected[:200].tolist(), rel=0.01)
        for row, next_row in pairwise(rows[200:]):
            assert next_row["rank"] == row["rank"] + row["n"] and row["logit"] > next_row["logit"]
            group = ordered[row["rank"] : next_row["rank"]] - ordered[0]
            assert (group - row["logit"]).abs().max() < 0.051


def test_it_cuts_to_k_first_and_then_to_p_and_shows_the_best() -> None:
    bars = SPEC["vconcat"][1]["layer"][0]
    steps = [str(step) for step in bars["transform"]]
    (k,) = (i for i, step in enumerate(steps) if "top_k" in step)
    (p,) = (i for i, step in enumerate(steps) if "top_p" in step)
    assert k < p and "datum.before < top_p" in steps[p] and f"datum.rank < {N_BARS}" in steps[-1]


def test_bars_and_numbers_have_the_same_rows_or_the_browser_would_not_sort_them() -> None:
    bars, numbers = SPEC["vconcat"][1]["layer"]
    assert bars["transform"] == numbers["transform"]
    assert all(layer["encoding"]["y"]["sort"] == {"field": "rank"} for layer in (bars, numbers))


def test_no_column_is_computed_from_itself_or_sliders_could_not_be_moved_back() -> None:
    made = [
        one["as"]
        for step in SPEC["vconcat"][1]["layer"][0]["transform"]
        for one in (step, *step.get("joinaggregate", ()), *step.get("window", ()))
        if "as" in one
    ]
    assert len(made) == len(set(made)) >= 9
