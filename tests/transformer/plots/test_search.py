"""The figures of beam search: the search tree, and the finished hypotheses under a length penalty."""

import pytest
import torch

from transformer.config import ModelConfig
from transformer.decoding import Candidate, beam_search
from transformer.model import Transformer
from transformer.plots.beam_tree import beam_tree, candidate_table
from transformer.plots.reranking import reranking

VOCABULARY = ["<pad>", "<bos>", "<eos>", "<unk>", "▁a", "▁b"]


def candidate(length: int, parent: int, token: int, log_probability: float, fate: str, beam: int | None) -> Candidate:
    return Candidate(0, length, parent, token, log_probability, log_probability / length, fate, beam)  # type: ignore[arg-type]


TRACE = [
    candidate(1, 0, 4, -0.5, "kept", 0),
    candidate(1, 0, 5, -0.9, "kept", 1),
    candidate(2, 1, 2, -1.0, "finished", None),
    candidate(2, 0, 5, -1.4, "kept", 0),
    candidate(2, 1, 4, -1.8, "kept", 1),
    candidate(2, 0, 4, -3.0, "dropped", None),
    candidate(3, 1, 2, -1.9, "dropped", None),
    candidate(3, 0, 2, -2.4, "finished", None),
]


def test_a_table_follows_each_candidate_to_its_parent() -> None:
    table = candidate_table(TRACE, VOCABULARY)
    assert table["text"].tolist() == [
        "▁a", "▁b", "▁b <eos>", "▁a ▁b", "▁b ▁a", "▁a ▁a", "▁b ▁a <eos>", "▁a ▁b <eos>",
    ]  # fmt: skip
    assert table["parent"].tolist() == [-1, -1, 1, 0, 1, 0, 4, 3]
    assert table["rank"].tolist() == [0, 1, 0, 1, 2, 3, 0, 1]


def test_the_winner_is_the_best_finished_hypothesis_not_the_last() -> None:
    table = candidate_table(TRACE, VOCABULARY)
    assert table.loc[table["winner"], "text"].tolist() == ["▁b", "▁b <eos>"]
    assert not candidate_table(TRACE[:2], VOCABULARY)["winner"].any()


def test_the_winner_of_a_real_search_is_its_best_hypothesis() -> None:
    torch.manual_seed(0)
    model = Transformer(ModelConfig(6, 16, 2, 16, 1, max_length=12)).eval()
    trace: list[Candidate] = []
    hypotheses = beam_search(model, torch.tensor([[4, 5, 2], [5, 2, 0]]), beam_size=3, trace=trace)
    for sentence, (best,) in enumerate(hypotheses):
        table = candidate_table(trace, VOCABULARY, sentence)
        winner = table[table["winner"]]
        assert winner["token"].tolist() == [*(VOCABULARY[token] for token in best.tokens), "<eos>"]
        assert winner["score"].iloc[-1] == pytest.approx(best.score)


def test_the_path_of_greedy_search_is_marked_as_far_as_the_beam_contains_it() -> None:
    table = candidate_table(TRACE, VOCABULARY, greedy=[4, 4, 5])
    assert table.loc[table["greedy"], "text"].tolist() == ["▁a", "▁a ▁a"]
    assert not candidate_table(TRACE, VOCABULARY)["greedy"].any()


def test_a_slider_sets_the_last_step_of_a_tree() -> None:
    spec = beam_tree(candidate_table(TRACE, VOCABULARY), "a tree").to_dict()
    (slider,) = spec["params"]
    assert slider["bind"]["min"] == 1 and slider["bind"]["max"] == slider["value"] == 3
    assert all({"filter": "datum.step <= last_step"} in layer["transform"] for layer in spec["layer"])


def test_a_tree_draws_every_candidate_and_every_edge() -> None:
    spec = beam_tree(candidate_table(TRACE, VOCABULARY), "a tree").to_dict()
    rows = sorted(len(data) for data in spec["datasets"].values())
    assert rows == [6, 8] and spec["description"] == "a tree" and spec["width"] <= 300


def test_reranking_divides_by_the_packages_own_penalty() -> None:
    spec = reranking(["short", "long"], [-4.0, -4.8], [5, 9], "turn it").to_dict()
    formulas = [step["calculate"] for layer in spec["layer"] for step in layer["transform"] if "calculate" in step]
    assert "datum['log P'] / pow((5 + datum.length) / 6, alpha)" in formulas
    (slider,) = (param for param in spec["params"] if "bind" in param)
    assert slider["name"] == "alpha" and slider["value"] == 0 and spec["width"] <= 300
