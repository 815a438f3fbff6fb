"""Augmented pairs remain translations of each other, and are changed only where both sides allow it."""

import itertools
import json
import random
import re
from collections import Counter

import pytest

from transformer.data.augmentation import (
    BRITISH,
    DAYS,
    FEMALE,
    HOURS,
    MALE,
    MONTHS,
    NUMBERS,
    PLACES,
    SURNAMES,
    TRANSLATED_PLACES,
    augment,
    made_up_name,
    to_british,
    write_carelessly,
)
from transformer.data.prepare import DataConfig, prepare, prepared_folder
from transformer.data.readers import SentencePair
from transformer.errors import UserError

PAIR = ("Tom's sister Mary lives in Boston, and Tom doesn't.", "Toms Schwester Maria lebt in Boston, und Tom nicht.")


def variants(english: str, german: str, n: int = 300) -> set[SentencePair]:
    """What becomes of a pair, apart from how its German source is written."""
    found = {augment(english, german, "de", 1.0, random.Random(seed)) for seed in range(n)}
    return {(one, two) for one, two in found if two[:1].isupper() and two[-1:] in ".!?"}


def test_all_names_change_in_the_same_way_and_nothing_else_does() -> None:
    kinds = []
    places = {*TRANSLATED_PLACES.items(), *zip(PLACES, PLACES, strict=True)}
    for english, german in variants(*PAIR, n=600):
        found = re.fullmatch(r"(.+)'s sister (.+) lives in (\w+), and (.+) doesn't\.", english)
        translated = re.fullmatch(r"(.+?)(?:s|') Schwester (.+) lebt in (\w+), und (.+) nicht\.", german)
        assert found is not None and translated is not None
        he, she, city, again = found.groups()
        german_he, german_she, german_city, german_again = translated.groups()
        assert again == he and german_again == he and german_he in (he, he[:-1])
        assert german.startswith(f"{he}' " if he[-1] in "sßxz" else f"{he}s ")
        assert german_she.replace("Frau", "Mrs.") == she.replace("Ms.", "Mrs.").replace("Mrs ", "Mrs. ")
        assert city == german_city or TRANSLATED_PLACES.get(city) == german_city
        kinds.append((he in MALE, he.startswith("Dr. "), she in FEMALE, "." in she, (city, german_city) in places))
    shares = [sum(kind) / len(kinds) for kind in zip(*kinds, strict=True)]  # the others are made up
    assert shares == pytest.approx([0.56, 0.2, 0.56, 0.15, 0.7], abs=0.1)


def test_mr_is_only_used_where_german_needs_no_other_ending() -> None:
    for pair, is_nominative in [
        (("Tom is here.", "Tom ist hier."), True),
        (("Good morning, Tom!", "Guten Morgen, Tom!"), True),
        (("I saw Tom.", "Ich habe Tom gesehen."), False),
        (("Tom likes it.", "Tom gefällt es."), False),
        (("Tom's car is red.", "Toms Auto ist rot."), False),
        (("Tom said Tom is here.", "Tom sagte, Tom ist hier."), False),
    ]:
        texts = variants(*pair)
        titles = Counter(re.findall(r"\b(Mr|Mr\.|Dr\.) (?=[A-Z])", " ".join(english for english, _ in texts)))
        assert bool(titles["Mr"] and titles["Mr."]) is is_nominative and titles["Dr."]
        assert all(("Mr" in english) is ("Herr " in german) for english, german in texts)
        assert any(surname in german for _, german in texts for surname in SURNAMES)


@pytest.mark.parametrize(
    ("english", "german", "words"),
    [
        ("We met on Monday.", "Wir haben uns am Montag getroffen.", DAYS),
        ("We meet on Mondays.", "Wir treffen uns montags.", DAYS),
        ("We meet on Monday evening.", "Wir treffen uns am Montagabend.", DAYS),
        ("It rains in May.", "Im Mai regnet es.", MONTHS),
        ("I have three cats.", "Ich habe drei Katzen.", NUMBERS),
        ("Twenty-one people came.", "Einundzwanzig Leute kamen.", NUMBERS),
    ],
)
def test_days_months_and_numbers_are_replaced_by_others(english: str, german: str, words: dict[str, str]) -> None:
    (old,) = (word for word in words if re.search(rf"\b{word}s?\b", english, re.IGNORECASE) and word != "twenty")
    texts = variants(english, german, 2000)
    expected = {
        (
            re.sub(old, new if old in english else new.capitalize(), english, flags=re.IGNORECASE),
            re.sub(
                words[old],
                lambda match, new=new: words[new].capitalize() if match[0][0].isupper() else words[new].lower(),
                german,
                flags=re.IGNORECASE,
            ),
        )
        for new in words
    }
    assert texts <= expected and len(texts) > 0.9 * len(expected)


def test_hours_stay_hours_and_become_half_hours() -> None:
    texts = variants("Come at nine o'clock.", "Komm um neun Uhr.", 1000)
    hours = {(f"Come at {hour} o'clock.", f"Komm um {NUMBERS[hour]} Uhr.") for hour in HOURS}
    half_hours = {
        (f"Come at half past {hour}.", f"Komm um halb {NUMBERS[following]}.")
        for hour, following in itertools.pairwise(HOURS)
    }
    assert texts == hours | half_hours
    assert ("Come at half past two.", "Komm um halb drei.") in texts
    for pair in [
        ("It begins at nine.", "Es beginnt um neun."),
        ("It's a quarter to nine.", "Es ist Viertel vor neun."),
    ]:
        assert {english for english, _ in variants(*pair)} == {pair[0].replace("nine", hour) for hour in HOURS}


def test_british_words_take_the_right_article_and_plural() -> None:
    assert to_british("An apartment near a subway.") == "A flat near an underground."
    assert to_british("Neighbors like movies, the movies and the movie theater.") == (
        "Neighbours like films, the films and the cinema."
    )
    assert to_british("Our maths teacher fed the parking meter at the department store.") == (
        "Our maths teacher fed the parking meter at the department store."
    )
    assert to_british("We store food from the store.") == "We store food from the shop."
    assert to_british("We saw the movies at the movies.") == "We saw the films at the cinema."
    assert to_british("Two trucks need flashlights.") == "Two lorries need torches."
    assert to_british("An honor, a color") == "An honour, a colour"
    assert to_british("Colorful e-mail from Grayson") == "Colorful e-mail from Grayson"
    assert not {american for american in BRITISH if american != american.lower()}
    assert all(to_british(american) == british for american, british in BRITISH.items())


@pytest.mark.parametrize(
    "pair",
    [
        ("Tom is here.", "Er ist hier."),
        ("Tom saw Tom.", "Tom sah sich."),
        ("The tomato is red.", "Die Tomate ist rot."),
        ("Tommy is here.", "Tommy ist hier."),
        ("Come on Monday.", "Komm am Dienstag."),
        ("Monday or Friday?", "Montag oder Freitag?"),
        ("I may come in May.", "Ich komme vielleicht im Mai."),
        ("Two hundred people.", "Zweihundert Leute."),
        ("A two-year-old child.", "Ein Kind von zwei Jahren."),
        ("It's half past two.", "Es ist halb drei."),
        ("An eight o'clock train.", "Ein Zug um acht Uhr."),
        ("We found an apartment.", "Wir haben eine Wohnung gefunden."),
    ],
)
def test_pairs_whose_sides_differ_stay_as_they_are(pair: SentencePair) -> None:
    assert variants(*pair) == {pair}


def test_only_the_source_is_written_carelessly() -> None:
    english, german = "Don't you speak German?", "Sprichst du kein Deutsch?"
    from_english = [augment(english, german, "en", 1.0, random.Random(seed)) for seed in range(400)]
    from_german = [augment(english, german, "de", 1.0, random.Random(seed)) for seed in range(400)]
    assert {target for _, target in from_english} == {german}
    assert {target for target, _ in from_german} == {english}
    counts = Counter(source for source, _ in from_english)
    assert 170 < counts[english] < 260  # half of the time, and a few that happen to be written well
    assert {"don't you speak german?", "dont you speak german", "don't you speak German"} < counts.keys()
    assert {source for _, source in from_german} > {"sprichst du kein deutsch", "sprichst du kein Deutsch?"}
    assert write_carelessly("", random.Random(1)) == ""


def test_the_probability_is_that_of_a_replacement() -> None:
    source = random.Random(1)
    pair = ("Tom is here.", "Tom ist hier.")
    assert all(augment(*pair, "en", 0.0, source) == pair for _ in range(100))
    assert 440 < sum(augment(*pair, "en", 0.5, source)[1] != pair[1] for _ in range(1000)) < 560
    assert 0 < sum(augment(*pair, "en", 0.01, source) != pair for _ in range(1000)) < 40


def test_made_up_names_are_words_and_rarely_the_same() -> None:
    source = random.Random(1)
    names = [made_up_name(source) for _ in range(1000)]
    assert all(re.fullmatch("[A-Z][a-z]{2,11}", name) for name in names) and len(set(names)) > 900


@pytest.mark.parametrize("direction", ["en-de", "de-en"])
def test_training_pairs_are_augmented_and_validation_pairs_are_not(tmp_path, monkeypatch, direction: str) -> None:
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
    plain = DataConfig(str(manifest), direction)
    augmented = DataConfig(str(manifest), direction, augmentation=0.5)
    assert prepared_folder(plain, 150) != prepared_folder(augmented, 150)

    def sentences(data: DataConfig, split: str) -> list[list[str]]:
        prepared = prepare(data, 150)
        sides = prepared.tokens(split)
        return [[prepared.tokenizer.decode(side[i].tolist()) for i in range(len(side))] for side in sides]

    assert all(text.startswith("Tom") for side in sentences(plain, "train") for text in side)
    assert all(text.startswith("Tom") for side in sentences(augmented, "valid") for text in side)
    source, target = sentences(augmented, "train")
    assert 100 < sum(text.startswith("Tom") for text in target) < 200
    assert all(text[0].isupper() and text.endswith(".") for text in target)
    assert 30 < sum(text[0].islower() for text in source) < 110
    assert sentences(augmented, "train") == [source, target]


def test_a_wrong_probability_or_language_is_refused() -> None:
    with pytest.raises(UserError, match=r"data\.augmentation must be between 0 and 1; got 2"):
        DataConfig(augmentation=2)
    with pytest.raises(UserError, match=r"for English and German only; data\.direction is en-fr"):
        DataConfig(direction="en-fr", augmentation=0.5)
