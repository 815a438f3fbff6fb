"""Languages are identified, by name and with sensible probabilities."""

import pytest

from transformer.data.language import check_languages, language_probability
from transformer.errors import UserError

BEACH = {
    "en": "The hotel is close to the beach, and the rooms have a view of the sea.",
    "de": "Das Hotel liegt nahe am Strand, und die Zimmer haben Blick auf das Meer.",
    "nl": "Het hotel ligt dicht bij het strand en de kamers hebben uitzicht op zee.",
    "fr": "L'hôtel est près de la plage, et les chambres ont vue sur la mer.",
    "it": "L'albergo è vicino alla spiaggia e le camere hanno vista sul mare.",
    "es": "El hotel está cerca de la playa y las habitaciones tienen vistas al mar.",
    "cs": "Hotel je blízko pláže a pokoje mají výhled na moře.",
    "uk": "Готель розташований недалеко від пляжу, а з номерів видно море.",
}


@pytest.mark.parametrize("language", BEACH)
def test_a_sentence_is_in_its_language_and_in_no_other(language: str) -> None:
    assert language_probability(BEACH[language], language) > 0.9
    assert all(language_probability(BEACH[language], other) < 0.001 for other in BEACH if other != language)


@pytest.mark.parametrize("text", ["", " ", "7", "...", "\x92\ufffd", "😀", "\ud800", "OK", "St. Gallen", "a" * 100_000])
def test_any_text_has_a_probability(text: str) -> None:
    assert 0 <= language_probability(text, "en") <= 1


def test_short_sentences_and_names_are_not_ruled_out() -> None:
    for text in ("Very well.", "Thank you, Mrs Fraga Estévez.", "Question No 42 by Mr Smith"):
        assert language_probability(text, "en") > 0.01


def test_known_and_unknown_languages() -> None:
    check_languages(BEACH)
    with pytest.raises(UserError, match="cannot identify the language 'deu': use its ISO 639 code"):
        check_languages(["en", "deu"])
