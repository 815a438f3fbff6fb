"""Names are varied in the same way on both sides, and only where both sides have them."""

import json
import random
import re

import pytest

from transformer.data.names import FEMALE, MALE, PLACES, made_up_name, vary_names
from transformer.data.prepare import DataConfig, prepare, prepared_folder
from transformer.errors import UserError

PAIR = ("Tom's sister Mary lives in Boston, and Tom doesn't.", "Toms Schwester Mary lebt in Boston, und Tom nicht.")


@pytest.mark.parametrize("swapped", [False, True])
def test_all_names_change_and_nothing_else_does(swapped: bool) -> None:
    kinds = []
    for seed in range(200):
        pair = vary_names(PAIR[::-1] if swapped else PAIR, 1.0, random.Random(seed))
        english, german = pair[::-1] if swapped else pair
        found = re.fullmatch(r"(\w+)'s sister (\w+) lives in (\w+), and (\w+) doesn't\.", english)
        assert found is not None
        he, she, city, again = found.groups()
        genitive = f"{he}'" if he[-1] in "sßxz" else f"{he}s"
        assert german == f"{genitive} Schwester {she} lebt in {city}, und {he} nicht." and again == he
        kinds.append((he in MALE, she in FEMALE, city in PLACES))
    for known in zip(*kinds, strict=True):  # the others are made up
        assert 110 < sum(known) < 170


def test_the_probability_is_that_of_a_replacement() -> None:
    source = random.Random(1)
    assert vary_names(PAIR, 0.0, source) == PAIR
    changed = [vary_names(("Tom is here.", "Tom ist hier."), 0.5, source)[0] != "Tom is here." for _ in range(1000)]
    assert 440 < sum(changed) < 560


@pytest.mark.parametrize(
    "pair",
    [
        ("Tom is here.", "Er ist hier."),
        ("Tom saw Tom.", "Tom sah sich."),
        ("The tomato is red.", "Die Tomate ist rot."),
        ("Tommy is here.", "Tommy ist hier."),
        ("", ""),
    ],
)
def test_pairs_whose_sides_differ_in_the_name_stay_as_they_are(pair: tuple[str, str]) -> None:
    assert vary_names(pair, 1.0, random.Random(1)) == pair


def test_made_up_names_are_words_and_rarely_the_same() -> None:
    source = random.Random(1)
    names = [made_up_name(source) for _ in range(1000)]
    assert all(re.fullmatch("[A-Z][a-z]{2,11}", name) for name in names) and len(set(names)) > 900


def test_training_pairs_are_varied_and_validation_pairs_are_not(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path / "data"))
    for split, n in (("train", 300), ("valid", 20)):
        for language, sentence in (("en", "Tom sees {} dogs."), ("de", "Tom sieht {} Hunde.")):
            text = "".join(sentence.format(i) + "\n" for i in range(n))
            (tmp_path / f"{split}.{language}").write_text(text)
    files = {split: {side: f"{split}.{side}" for side in ("en", "de")} for split in ("train", "valid", "test")}
    files["test"] = files["valid"]
    splits = {split: [sides] for split, sides in files.items()}
    manifest = tmp_path / "mine.json"
    manifest.write_text(json.dumps({"languages": ["en", "de"], "splits": splits}))
    plain, varied = DataConfig(str(manifest)), DataConfig(str(manifest), name_variation=0.5)
    assert prepared_folder(plain, 120) != prepared_folder(varied, 120)

    def sources(data: DataConfig, split: str) -> list[str]:
        prepared = prepare(data, 120)
        ids, _ = prepared.tokens(split)
        return [prepared.tokenizer.decode(ids[i].tolist()) for i in range(len(ids))]

    assert all(text.startswith("Tom") for text in sources(plain, "train") + sources(varied, "valid"))
    assert 100 < sum(text.startswith("Tom") for text in sources(varied, "train")) < 200
    assert sources(varied, "train") == sources(varied, "train")


def test_a_probability_out_of_range_is_refused() -> None:
    with pytest.raises(UserError, match=r"data\.name_variation must be between 0 and 1; got 2"):
        DataConfig(name_variation=2)
