import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.evaluation.metrics import (
    STEMMERS,
    Score,
    bleu,
    chrf,
    comparison_table,
    meteor,
    moses_tokenize,
    paired_bootstrap,
    paper_bleu,
    score_table,
    score_translations,
    split_at_hyphens,
)

REFERENCES = [
    "Der alte Mann öffnet bzw. schließt die Tür nicht.",
    "Am Montag kommt sie zurück, weil es regnet.",
    "„Die S-Bahn fährt“, sagte er, „um 9.30 Uhr!“",
]
HYPOTHESES = [
    "Der alte Mann öffnet bzw. schließt das Fenster nicht.",
    "am Montag kommt sie zurück, weil es schneit.",
    "„Die S-Bahn fährt schon“, sagte er, „um 9.30 Uhr!“",
]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return str(path)


def sacrebleu(*args: str) -> str:
    command = [sys.executable, "-m", "sacrebleu", *args]
    return subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout


def named(scores: list[Score]) -> dict[str, Score]:
    return {score.name: score for score in scores}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("BLEU", "-m bleu -tok 13a"),
        ("BLEU lc", "-m bleu -tok 13a -lc"),
        ("BLEU intl", "-m bleu -tok intl"),
        ("BLEU intl lc", "-m bleu -tok intl -lc"),
        ("chrF2", "-m chrf"),
    ],
)
def test_equals_the_sacrebleu_command(name: str, options: str, tmp_path: Path) -> None:
    files = [write(tmp_path / "ref", REFERENCES), "-i", write(tmp_path / "hyp", HYPOTHESES)]
    score = named(score_translations(HYPOTHESES, REFERENCES, "de"))[name]
    printed = sacrebleu(*files, *options.split(), "-f", "text", "-w", "10")
    label, _, value, *_ = printed.split()
    assert label == f"{name.split()[0]}|{score.signature}"
    assert float(value) == pytest.approx(score.value, abs=1e-9)
    assert 0 < score.value < 100


def test_all_metrics_differ() -> None:
    values = [score.value for score in score_translations(HYPOTHESES, REFERENCES, "de") if score.name != "chrF2"]
    assert len(set(values)) == len(values) == 6


def test_every_score_of_the_same_text_is_full_but_meteor() -> None:
    """METEOR's penalty for one piece is ½·(1/words)³."""
    scores = named(score_translations(REFERENCES, REFERENCES, "de"))
    words = [len(moses_tokenize(line, "de")) for line in REFERENCES]
    expected = 100 * sum(1 - 0.5 / n**3 for n in words) / 3
    assert scores.pop("METEOR").value == pytest.approx(expected)
    assert [score.value for score in scores.values()] == pytest.approx([100] * 6)


def test_lowercase_is_said_in_the_signature() -> None:
    low = [line.lower() for line in REFERENCES]
    assert bleu(low, REFERENCES).value < bleu(low, REFERENCES, lowercase=True).value == pytest.approx(100)
    assert "case:lc" in bleu(low, REFERENCES, lowercase=True).signature
    assert str(bleu(REFERENCES, REFERENCES)).startswith("BLEU 100.00  nrefs:1|case:mixed|")


def test_unequal_numbers_are_refused() -> None:
    for score in (bleu, chrf):
        with pytest.raises(ValueError, match="got 1 hypotheses and 3 references"):
            score(HYPOTHESES[:1], REFERENCES)
        with pytest.raises(ValueError, match="got 0 hypotheses and 0 references"):
            score([], [])
    for of_words in (meteor, paper_bleu):
        with pytest.raises(ValueError, match="got 1 hypotheses and 0 references"):
            of_words([["a"]], [], "de")
    for first, second in ((HYPOTHESES[:1], HYPOTHESES), (HYPOTHESES, HYPOTHESES[:1])):
        with pytest.raises(ValueError, match="got 1 hypotheses and 3 references"):
            paired_bootstrap(first, second, REFERENCES)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("S-Bahn", "S ##AT##-##AT## Bahn"),
        ("die S-Bahn-Station", "die S ##AT##-##AT## Bahn ##AT##-##AT## Station"),
        ("a-b-c", "a ##AT##-##AT## b-c"),  # as the script: the b is used up
        ("- Ein- und - -x Aus-", "- Ein- und - -x Aus-"),  # a hyphen with a space beside it stays
        ("twenty-one", "twenty ##AT##-##AT## one"),
        ("Straßenbahn 1–2", "Straßenbahn 1–2"),
        ("a--b", "a ##AT##-##AT## -b"),
        ("", ""),
    ],
)
def test_words_are_split_at_hyphens(words: str, line: str) -> None:
    assert split_at_hyphens(words.split()) == line


def test_moses_knows_the_abbreviations_of_the_language() -> None:
    line = 'Er wohnt bzw. schläft in der Dr. Meier & Co. KG, d.h. im "Haus".'
    tokens = 'Er wohnt bzw. schläft in der Dr. Meier & Co. KG , d.h. im " Haus " .'
    assert moses_tokenize(line, "de") == tokens.split()
    assert moses_tokenize("bzw. Drei", "de") == ["bzw.", "Drei"] != moses_tokenize("bzw. Drei", "en")
    assert moses_tokenize("", "de") == moses_tokenize(" ", "xx") == []


def test_the_papers_bleu_by_hand() -> None:
    """Of "die S - Bahn kommt heute" 5 of 6 words, 3 of 5 pairs, 2 of 4 triples and 1 of 3 fours are right."""
    score = paper_bleu([["die", "S-Bahn", "kommt", "heute"]], [["die", "S-Bahn", "fährt", "heute"]], "de")
    assert score.value == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    assert "tok:sacremoses-" in score.signature and "-de-paper|smooth:none|" in score.signature
    assert paper_bleu([["a", "b"]], [["a", "b"]], "de").value == 0  # no smoothing: there is no four
    assert paper_bleu([["Die"] * 4], [["die"] * 4], "de").value == 0  # cased


@pytest.mark.parametrize("quotes", ["„“", "“”", "»«", "«»", '""'])
def test_the_papers_bleu_does_not_distinguish_quotation_marks(quotes: str) -> None:
    reference = moses_tokenize("„Wir kommen morgen“, sagte er.", "de")
    hypothesis = moses_tokenize(f"{quotes[0]}Wir kommen morgen{quotes[1]}, sagte er.", "de")
    assert paper_bleu([hypothesis], [reference], "de").value == pytest.approx(100)
    assert paper_bleu([reference], [hypothesis], "de").value == pytest.approx(100)


def test_meteor_by_hand() -> None:
    """3 of 4 and 3 of 5 words match, in 2 pieces: recall counts 9 times, and the penalty is ½·(2/3)³."""
    hypothesis, reference = "der Hund bellt laut".split(), "Der Hund hat laut gebellt".split()
    p, r = 3 / 4, 3 / 5
    by_hand = p * r / (0.9 * p + 0.1 * r) * (1 - 0.5 * (2 / 3) ** 3)
    assert meteor([hypothesis], [reference], "de").value == pytest.approx(100 * by_hand)
    twice = meteor([hypothesis, ["nichts"]], [reference, ["alles"]], "de").value
    assert twice == pytest.approx(50 * by_hand), "the mean of the sentences"
    assert meteor([[]], [reference], "de").value == meteor([hypothesis], [[]], "de").value == 0
    of_three = meteor([hypothesis, [], hypothesis], [reference, reference, []], "de").value
    assert of_three == pytest.approx(100 * by_hand / 3), "where one side is empty, the pair counts, as 0"


def test_an_empty_pair_changes_no_score() -> None:
    with_empty_pair = score_translations([*HYPOTHESES, ""], [*REFERENCES, ""], "de")
    assert with_empty_pair == score_translations(HYPOTHESES, REFERENCES, "de")
    assert meteor([[]], [[]], "de").value == bleu([""], [""]).value == 0


def test_meteor_stems_by_the_language() -> None:
    pair = [["Häuser"]], [["Hauses"]]
    assert meteor(*pair, "de").value == pytest.approx(50)
    assert meteor(*pair, "en").value == meteor(*pair, "xx").value == 0
    assert meteor([["running"]], [["runs"]], "en").value == pytest.approx(50)
    assert "stem:german|" in meteor(*pair, "de").signature and "stem:no|" in meteor(*pair, "xx").signature
    assert meteor(*pair, "xx").explanation == "matching words; mean over sentences"


@pytest.mark.parametrize("language", STEMMERS)
def test_there_is_a_stemmer_of_this_name(language: str) -> None:
    assert meteor([["a", "b"]], [["a", "c"]], language).value == pytest.approx(25)


def test_meteor_takes_synonyms_where_wordnet_is_and_only_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    synset = SimpleNamespace(lemmas=lambda: [SimpleNamespace(name=lambda: "auto")])
    wordnet: Any = SimpleNamespace(synsets=lambda word: [synset] * (word == "car"), get_version=lambda: "3.0")
    pair = [["car"]], [["auto"]]
    monkeypatch.setattr("transformer.evaluation.metrics._load_wordnet", lambda: None)
    without = meteor(*pair, "en")
    assert without.value == 0 and "no synonyms (WordNet is not installed)" in without.explanation
    assert "synonyms:no|" in without.signature
    monkeypatch.setattr("transformer.evaluation.metrics._load_wordnet", lambda: wordnet)
    scores = meteor(*pair, "en")
    assert scores.value == pytest.approx(50) and "stems and synonyms" in scores.explanation
    assert "synonyms:wordnet-3.0|" in scores.signature
    german = meteor(*pair, "de")
    assert german.value == 0 and german.explanation == "matching words and stems; mean over sentences"


def test_no_wordnet_and_half_a_wordnet_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import nltk

    for folders in ([], [str(tmp_path)]):
        monkeypatch.setattr(nltk.data, "path", folders)
        (tmp_path / "corpora" / "wordnet").mkdir(parents=True, exist_ok=True)
        assert "synonyms:no|" in meteor([["a"]], [["b"]], "en").signature


def test_comparing_equals_the_sacrebleu_command(tmp_path: Path) -> None:
    references, second = REFERENCES * 5, [*HYPOTHESES, *REFERENCES] * 2 + HYPOTHESES
    first = HYPOTHESES * 5
    systems = [write(tmp_path / "one", first), write(tmp_path / "two", second)]
    printed = sacrebleu(
        write(tmp_path / "ref", references), "-i", *systems, *"-m bleu chrf --paired-bs -f latex".split()
    )
    for one in paired_bootstrap(first, second, references):
        assert f"p = {one.p_value:.4f}" in printed
        assert "|bs:1000|seed:12345|" in one.signature
        assert one.first < one.second


def test_a_system_is_no_better_than_itself_and_one_much_better_is() -> None:
    references = [f"Satz {i}: {line}" for i in range(10) for line in REFERENCES]
    bad = [f"Satz {i}: {line}" for i in range(10) for line in HYPOTHESES]
    assert [one.p_value for one in paired_bootstrap(bad, bad, references)] == [1, 1]
    better, by_letters = paired_bootstrap(bad, references, references)
    assert (better.metric, by_letters.metric) == ("BLEU", "chrF2")
    assert better.p_value < 0.01 and by_letters.p_value < 0.01
    assert better.first == pytest.approx(bleu(bad, references).value) and better.second == pytest.approx(100)
    assert by_letters.first == pytest.approx(chrf(bad, references).value)


def test_different_translations_with_the_same_scores_do_not_differ_significantly() -> None:
    hopeless = [f"{i} x" for i in range(40)], [f"{i} y" for i in range(40)]
    by_words, _ = paired_bootstrap(*hopeless, REFERENCES[:1] * 40)
    assert by_words.first == by_words.second and by_words.p_value == 1


def test_chance_is_not_called_better() -> None:
    """Two systems that make the same mistakes in different places."""
    references = REFERENCES * 20
    halves = [
        [h if i % 2 == odd else r for i, (h, r) in enumerate(zip(HYPOTHESES * 20, references, strict=True))]
        for odd in (0, 1)
    ]
    assert all(one.p_value > 0.1 for one in paired_bootstrap(*halves, references))


def test_tables_are_for_people() -> None:
    scores = score_translations(HYPOTHESES, REFERENCES, "de")
    table = score_table([scores])
    assert max(map(len, table.splitlines())) <= 100
    for score in scores:
        (line,) = (
            line
            for line in table.splitlines()
            if line.endswith(score.explanation) and line.startswith(f"{score.name} ")
        )
        assert f" {score.value:.2f} " in line and score.explanation
        assert any(line.split("  ")[-1].strip() == score.signature for line in table.splitlines())
    both = score_table([scores, score_translations(REFERENCES, REFERENCES, "de")])
    assert max(map(len, both.splitlines())) <= 100
    assert both.splitlines()[0].split()[:3] == ["metric", "1", "2"]
    assert " 100.00 " in both and f" {scores[0].value:.2f} " in both
    compared = comparison_table(
        [paired_bootstrap(HYPOTHESES, REFERENCES, REFERENCES), paired_bootstrap(HYPOTHESES, HYPOTHESES, REFERENCES)]
    )
    rows = [line.split() for line in compared.splitlines()]
    gain = 100 - scores[0].value
    assert rows[2][:5] == ["BLEU", "2", "-", "1", f"+{gain:.2f}"] and rows[4] == "BLEU 3 - 1 +0.00 1.000".split()
    assert max(map(len, compared.splitlines())) <= 100


# A sentence is a line: sacreBLEU's 13a would join the two parts of a word that is hyphenated at the end of a line.
lines = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=30)
texts = st.lists(lines, min_size=1, max_size=4)


@given(texts, st.sampled_from(["de", "en", "xx"]), st.data())
def test_any_text_has_scores(references: list[str], language: str, data: st.DataObject) -> None:
    hypotheses = [data.draw(st.sampled_from([line, "", "a b"])) for line in references]
    scores = score_translations(hypotheses, references, language)
    assert all(0 <= score.value <= 100 + 1e-9 for score in scores)
    assert len(scores) == 7 and all(asdict(score) for score in scores)
    spaced = ([single_spaced(line) for line in side] for side in (hypotheses, references))
    assert score_translations(*spaced, language) == scores, "the amount of white space does not matter"


def single_spaced(line: str) -> str:
    """Return a line with a space in place of all white space, also at the beginning, but without any at the end.

    A space at the beginning matters to sacreBLEU's ``intl``: it splits the punctuation from " :0", but not from ":0".
    """
    return " " * line[:1].isspace() + " ".join(line.split())
