"""Metrics of translation quality: BLEU, chrF and METEOR, with their signatures, and a test of significance.

There is no such thing as "the BLEU score": how the text is split into words, and whether case matters, changes the
score by more than most new methods do. Each score therefore has a signature that records how it was computed.
sacreBLEU computes scores wherever it can, so that anybody who has the same text gets the same score.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any, cast

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest
from tabulate import tabulate

STEMMERS = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "en": "porter",  # METEOR's own for English
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
}
"""NLTK's Snowball stemmers, by language code."""

STRAIGHT_QUOTES = str.maketrans(dict.fromkeys("„“”‟«»", '"'))
"""Replaces all double quotation marks by the straight one, as in the reference of the paper's authors."""


@dataclass(frozen=True)
class Score:
    """The score of a whole test set, and how it was computed."""

    name: str
    value: float
    """From 0 to 100; higher is better."""
    signature: str
    """Everything that the value depends on, except the text, in sacreBLEU's notation."""
    explanation: str = ""
    """One line about what the metric compares, for a table."""

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f}  {self.signature}"


@dataclass(frozen=True)
class Comparison:
    """The scores of two systems on the same test set, and the significance of their difference."""

    metric: str
    first: float
    second: float
    p_value: float
    """The probability of a larger difference by chance, if the systems are equally good."""
    signature: str


def bleu(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False, tokenize: str = "13a") -> Score:
    """Compute corpus BLEU with sacreBLEU, with one reference per sentence.

    Args:
        hypotheses: detokenised translations.
        references: reference translations, in the same order.
        lowercase: whether to ignore case.
        tokenize: sacreBLEU's name for a tokenizer; ``13a`` (the default) and ``intl`` are the usual ones.

    Raises:
        ValueError: if there are no sentences, or the numbers of hypotheses and references differ.
    """
    _check_lengths(hypotheses, references)
    metric = BLEU(tokenize=tokenize, lowercase=lowercase)
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Score("BLEU", score.score, str(metric.get_signature()))


def score_translations(hypotheses: Sequence[str], references: Sequence[str], language: str) -> list[Score]:
    """Compute all metrics for a test set: four variants of BLEU, chrF2, METEOR, and BLEU as in the paper.

    Args:
        hypotheses: detokenised translations.
        references: reference translations, in the same order.
        language: language code of both, such as ``"de"``.

    Raises:
        ValueError: if there are no sentences, or the numbers of hypotheses and references differ.
    """
    bleu_scores = []
    for tokenize, name, explanation in (
        ("13a", "BLEU", "1- to 4-grams of words and ASCII punctuation: the score to report"),
        ("intl", "BLEU intl", "like BLEU, but with all Unicode punctuation"),
    ):
        for lowercase in (False, True):
            score = bleu(hypotheses, references, lowercase, tokenize)
            if lowercase:
                name, explanation = f"{name} lc", f"{name}, ignoring case"
            bleu_scores.append(Score(name, score.value, score.signature, explanation))
    words = (
        [moses_tokenize(line, language) for line in hypotheses],
        [moses_tokenize(line, language) for line in references],
    )
    return [*bleu_scores, chrf(hypotheses, references), meteor(*words, language), paper_bleu(*words, language)]


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Compute chrF2 with sacreBLEU: the F2 score of character 1- to 6-grams (recall counts twice as much as precision).

    Raises:
        ValueError: if there are no sentences, or the numbers of hypotheses and references differ.
    """
    _check_lengths(hypotheses, references)
    metric = CHRF()
    score = metric.corpus_score(list(hypotheses), [list(references)])
    explanation = "1- to 6-grams of characters: partial credit for nearly correct words"
    return Score("chrF2", score.score, str(metric.get_signature()), explanation)


def moses_tokenize(line: str, language: str) -> list[str]:
    """Split a line into words with the Moses tokenizer, as reimplemented by sacremoses.

    Punctuation marks become separate words, except for the periods of known abbreviations. sacremoses has a list of
    abbreviations for many languages and uses the English list for all others.
    """
    return list(_moses_tokenizer(language).tokenize(line, escape=False))


def split_at_hyphens(words: Sequence[str]) -> str:
    """Join words into a line and split those with a hyphen: "S-Bahn" becomes "S ##AT##-##AT## Bahn".

    Compounds without a hyphen, such as "Straßenbahn", are not split. Matches cannot overlap, so a single letter between
    two hyphens stays with the second one: "a-b-c" becomes "a ##AT##-##AT## b-c", as in Tensor2Tensor's script.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", " ".join(words))


def paper_bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]], language: str) -> Score:
    """Compute BLEU as the paper presumably does: Moses tokens, split at hyphens, with straight quotation marks.

    The paper (§6.1) doesn't say how its BLEU was computed. The authors' script is ``get_ende_bleu.sh`` in
    Tensor2Tensor, and according to its issue 317 their reference has straight quotation marks (``"``) in place of all
    others. We replace the quotation marks in both texts, so that a translation that uses the same ones as the original
    reference isn't penalised. The score is case-sensitive and not smoothed.

    Both steps create matches, so the score is usually higher than sacreBLEU's: use it only to compare with the paper.

    Args:
        hypotheses: the words of each translation, from `moses_tokenize`.
        references: the words of each reference, in the same order.
        language: language code, for the signature only.

    Raises:
        ValueError: if there are no sentences, or the numbers of hypotheses and references differ.
    """
    _check_lengths(hypotheses, references)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)  # force: no warning about tokenised text
    hypothesis_lines, reference_lines = (
        [split_at_hyphens(words).translate(STRAIGHT_QUOTES) for words in side] for side in (hypotheses, references)
    )
    score = metric.corpus_score(hypothesis_lines, [reference_lines])
    signature = str(metric.get_signature()).replace("tok:none", f"tok:{_tokenizer_name(language)}-paper")
    explanation = "probably as in the paper: split at hyphens, quotation marks made equal"
    return Score("BLEU paper", score.score, signature, explanation)


def meteor(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]], language: str) -> Score:
    """Compute METEOR with NLTK from the matching words and the chunks they form, averaged over sentences.

    A word matches the same word (ignoring case), a word with the same stem, or a synonym. Stemming needs a stemmer for
    the language, see `STEMMERS`. Synonyms come from WordNet, for English only, and only if NLTK finds WordNet on this
    machine. NLTK looks up synonyms by stem, so it finds none where the stem is not a word itself.

    A pair of an empty hypothesis and an empty reference is left out of the mean: it changes neither BLEU nor chrF, and
    NLTK would count it as 0, although nothing is wrong with it.

    Args:
        hypotheses: the words of each translation, from `moses_tokenize`.
        references: the words of each reference, in the same order.
        language: language code of both.

    Raises:
        ValueError: if there are no sentences, or the numbers of hypotheses and references differ.
    """
    from nltk.stem import SnowballStemmer  # slow to import
    from nltk.translate.meteor_score import single_meteor_score

    _check_lengths(hypotheses, references)
    stemmer_name = STEMMERS.get(language)
    stemmer = SnowballStemmer(stemmer_name) if stemmer_name else SimpleNamespace(stem=lambda word: word)
    wordnet = _load_wordnet() if language == "en" else None
    synonyms = wordnet or SimpleNamespace(synsets=lambda word: [])
    synonyms_name = f"wordnet-{wordnet.get_version()}" if wordnet else "no"
    scores = [
        single_meteor_score(reference, hypothesis, stemmer=stemmer, wordnet=synonyms)
        for hypothesis, reference in zip(hypotheses, references, strict=True)
        if hypothesis or reference
    ]
    signature = (
        f"case:lc|tok:{_tokenizer_name(language)}|stem:{stemmer_name or 'no'}|synonyms:{synonyms_name}"
        f"|nltk:{version('nltk')}"
    )
    matches = "words and stems" if stemmer_name else "words"
    if wordnet:
        matches = "words, stems and synonyms"
    elif language == "en":
        matches += ", no synonyms (WordNet is not installed)"
    explanation = f"matching {matches}; mean over sentences"
    return Score("METEOR", 100 * sum(scores) / max(1, len(scores)), signature, explanation)


def paired_bootstrap(first: Sequence[str], second: Sequence[str], references: Sequence[str]) -> list[Comparison]:
    """Test whether two systems differ significantly, by sacreBLEU's paired bootstrap, in BLEU and in chrF2.

    The test resamples the test set 1,000 times with replacement and scores both systems on each sample.

    Args:
        first: detokenised translations of the baseline.
        second: detokenised translations of the system that is compared with it.
        references: reference translations.

    Returns:
        One comparison for BLEU (13a, case-sensitive) and one for chrF2.

    Raises:
        ValueError: if there are no sentences, or the numbers of translations and references differ.
    """
    _check_lengths(first, references)
    _check_lengths(second, references)
    test = PairedTest(
        [("first", list(first)), ("second", list(second))],
        {"BLEU": BLEU(force=True), "chrF2": CHRF()},
        [list(references)],
        test_type="bs",
    )
    signatures, results = test()
    comparisons = []
    for name, signature in signatures.items():
        first_result, second_result = cast(list[Any], results[name])
        # If no resample shows a difference, sacreBLEU's p-value is 1/1001, as if the difference were significant.
        p_value = 1.0 if first_result.score == second_result.score else second_result.p_value
        comparisons.append(Comparison(name, first_result.score, second_result.score, p_value, str(signature)))
    return comparisons


def score_table(columns: Sequence[Sequence[Score]]) -> str:
    """Format scores as a table with one row per metric, followed by the signatures.

    Args:
        columns: the scores of each system from `score_translations`; several systems are numbered from 1.
    """
    numbers = ["score"] if len(columns) == 1 else [f"{i + 1}" for i in range(len(columns))]
    rows = [[row[0].name, *(s.value for s in row), row[0].explanation] for row in zip(*columns, strict=True)]
    table = tabulate(rows, ["metric", *numbers, "what it measures"], floatfmt=".2f")
    return f"{table}\n\n{tabulate([[s.name, s.signature] for s in columns[0]], tablefmt='plain')}"


def comparison_table(comparisons: Sequence[Sequence[Comparison]]) -> str:
    """Format comparisons with the first system as a table.

    Args:
        comparisons: the comparisons of each other system, in order; these systems are numbered from 2.
    """
    rows = [
        [
            comparison.metric,
            f"{number} - 1",
            f"{comparison.second - comparison.first:+.2f}",
            f"{comparison.p_value:.3f}",
        ]
        for number, system in enumerate(comparisons, 2)
        for comparison in system
    ]
    alignment = ("left", "right", "right", "right")
    table = tabulate(rows, ["metric", "systems", "difference", "p"], disable_numparse=True, colalign=alignment)
    metrics = [[comparison.metric, comparison.signature] for comparison in comparisons[0]]
    signatures = tabulate(metrics, tablefmt="plain")
    return (
        f"{table}\n\n"
        "p is the probability of a larger difference by chance, if both systems are equally good;\n"
        f"below 0.05, a difference is usually called significant. sacreBLEU's paired bootstrap:\n{signatures}"
    )


@cache
def _moses_tokenizer(language: str) -> Any:
    from sacremoses import MosesTokenizer  # slow to import

    return MosesTokenizer(language)


def _tokenizer_name(language: str) -> str:
    """Return the name of `moses_tokenize` in a signature."""
    return f"sacremoses-{version('sacremoses')}-{language}"


def _load_wordnet() -> Any | None:
    """Return NLTK's WordNet if it is on this machine; it is never downloaded."""
    from nltk.corpus import wordnet

    try:
        wordnet.ensure_loaded()
    except (LookupError, OSError):  # missing or incomplete
        return None
    return wordnet


def _check_lengths(hypotheses: Sequence[object], references: Sequence[object]) -> None:
    if len(hypotheses) != len(references) or not references:
        raise ValueError(
            f"there must be one reference per hypothesis, and at least one of each; "
            f"got {len(hypotheses)} hypotheses and {len(references)} references"
        )
