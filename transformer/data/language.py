"""Identify the language of a sentence, without network access.

The model is that of py3langid, a fork of langid.py (Lui and Baldwin, 2012), and comes with that package. It is a naive
Bayes model of byte n-grams, for 139 languages and for text in no language, such as numbers. One CPU core identifies a
few thousand sentences per second.
"""

from collections.abc import Iterable
from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from transformer.errors import UserError, quote


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def check_languages(codes: Iterable[str]) -> None:
    """Check that languages can be identified.

    Args:
        codes: ISO 639 codes, such as ``"de"``.

    Raises:
        UserError: if a language is not one of the model's.
    """
    unknown = [code for code in codes if code not in _identifier().labels]
    if unknown:
        raise UserError(
            f"py3langid cannot identify the language {quote(unknown[0])}: use its ISO 639 code, or turn the "
            "filter off with data.cleaning.min_language_probability 0"
        )


def language_probability(text: str, language: str) -> float:
    """Estimate the probability that a text is in a language.

    Short text, and text that is mostly names or numbers, often gets a probability between 0.01 and 0.5 even if it is in
    that language; a sentence in another language usually gets less than 0.001. The probability of a text with thousands
    of words can be far below 1, too.

    Args:
        text: a sentence, for example.
        language: an ISO 639 code that passes `check_languages`.
    """
    return dict(_identifier().rank(text))[language]
