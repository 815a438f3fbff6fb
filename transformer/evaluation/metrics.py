"""How good translations are: BLEU and others, each with the signature that says which, and whether a gain is chance.

There is no such thing as "the BLEU": what counts as a word, and whether capitals count, moves it by more than most
inventions do. So each score says how it was computed, and sacreBLEU does it where it can: from the same text, anybody
gets the same.
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
"""NLTK's Snowball stemmers, by the code of the language."""


@dataclass(frozen=True)
class Score:
    """One number for a whole test set, and how it was computed."""

    name: str
    value: float
    """0 to 100."""
    signature: str
    """All that the number depends on besides the text; sacreBLEU's own for sacreBLEU's scores."""
    explanation: str = ""
    """A line for people."""

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f}  {self.signature}"


@dataclass(frozen=True)
class Comparison:
    """Two systems' scores on the same test set."""

    metric: str
    first: float
    second: float
    p: float
    """How often chance alone makes a difference larger than this one, if the two are equally good."""
    signature: str


def bleu(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False, tokenize: str = "13a") -> Score:
    """Corpus BLEU by sacreBLEU, one reference each.

    Args:
        hypotheses: translations, detokenised.
        references: what they should be, in the same order.
        lowercase: capital letters do not count.
        tokenize: sacreBLEU's name for what is a word; ``13a`` and ``intl`` are the usual ones.

    Raises:
        ValueError: if the two differ in number, or are empty.
    """
    _check(hypotheses, references)
    metric = BLEU(tokenize=tokenize, lowercase=lowercase)
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Score("BLEU", score.score, str(metric.get_signature()))


def scores(hypotheses: Sequence[str], references: Sequence[str], language: str) -> list[Score]:
    """Every score of a test set: BLEU in four ways, chrF, METEOR, and BLEU as the paper has it.

    Args:
        hypotheses: translations, detokenised.
        references: what they should be, in the same order.
        language: the code of the language that both are in.

    Raises:
        ValueError: if the two differ in number, or are empty.
    """
    found = []
    for tokenize, name, explanation in (
        ("13a", "BLEU", "ASCII punctuation counts as words: the one to report"),
        ("intl", "BLEU intl", "all punctuation counts as words, not only that of ASCII"),
    ):
        for lowercase in (False, True):
            score = bleu(hypotheses, references, lowercase, tokenize)
            if lowercase:
                name, explanation = f"{name} lc", "the same, but capital letters do not count"
            found.append(Score(name, score.value, score.signature, explanation))
    words = [tokenized(line, language) for line in hypotheses], [tokenized(line, language) for line in references]
    return [*found, chrf(hypotheses, references), meteor(*words, language), paper_bleu(*words, language)]


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2 by sacreBLEU: the overlap of pieces of 1 to 6 characters; recall counts twice as much as precision.

    Raises:
        ValueError: if the two differ in number, or are empty.
    """
    _check(hypotheses, references)
    metric = CHRF()
    score = metric.corpus_score(list(hypotheses), [list(references)])
    explanation = "pieces of 1 to 6 characters: a nearly right word counts, too"
    return Score("chrF2", score.score, str(metric.get_signature()), explanation)


def tokenized(line: str, language: str) -> list[str]:
    """A line's words as the Moses tokeniser has them, by sacremoses.

    It splits off punctuation, but for the periods of abbreviations that it knows in the language; in one without a
    list of its own, those of English.
    """
    return list(_moses(language).tokenize(line, escape=False))


def split_at_hyphens(words: Sequence[str]) -> str:
    """A line in which a word like "S-Bahn" is two with a mark between them: "S ##AT##-##AT## Bahn".

    Hyphens are all it looks at, in any language: "twenty-one" is split, and "Straßenbahn" is not. A letter that stands
    between two hyphens belongs to the first: of "a-b-c" only "a" is split off, as the paper's script would do it.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", " ".join(words))


def paper_bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]], language: str) -> Score:
    """BLEU as the authors' script computes it: cased, of Moses's words, split at hyphens, without smoothing.

    Each split makes three words of one and rewards the mark between them, so it is higher than the others: use it to
    compare with the paper and with nothing else. The script takes references that somebody else had tokenised, and so
    even this one may differ from the paper's by some tenths.

    Args:
        hypotheses: the words of each, see `tokenized`.
        references: the same of what they should be.
        language: only for the signature.

    Raises:
        ValueError: if the two differ in number, or are empty.
    """
    _check(hypotheses, references)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)  # force: yes, this is tokenised
    score = metric.corpus_score(
        [split_at_hyphens(words) for words in hypotheses], [[split_at_hyphens(words) for words in references]]
    )
    signature = str(metric.get_signature()).replace("tok:none", f"tok:{_tokenizer(language)}-hyphens")
    explanation = "the paper's: split at hyphens, too, which makes it higher"
    return Score("BLEU paper", score.score, signature, explanation)


def meteor(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]], language: str) -> Score:
    """METEOR by NLTK: how many words are matched, and in how few pieces; the mean over the sentences.

    A word matches the same word in lower case, one of the same stem, or a synonym. Stems are those of the language, if
    NLTK has its stemmer. Synonyms are WordNet's: only for English, and only where NLTK finds it; as NLTK looks for
    them by the stem, it sees those whose stems are words.

    Args:
        hypotheses: the words of each, see `tokenized`.
        references: the same of what they should be.
        language: the code of their language.

    Raises:
        ValueError: if the two differ in number, or are empty.
    """
    from nltk.stem import SnowballStemmer  # here, because it takes long to import
    from nltk.translate.meteor_score import single_meteor_score

    _check(hypotheses, references)
    stems = STEMMERS.get(language)
    stemmer = SnowballStemmer(stems) if stems else SimpleNamespace(stem=lambda word: word)
    wordnet = _wordnet() if language == "en" else None
    synonyms = wordnet or SimpleNamespace(synsets=lambda word: [])
    named = f"wordnet-{wordnet.get_version()}" if wordnet else "no"
    total = sum(
        single_meteor_score(reference, hypothesis, stemmer=stemmer, wordnet=synonyms)
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    )
    signature = f"case:lc|tok:{_tokenizer(language)}|stem:{stems or 'no'}|synonyms:{named}|nltk:{version('nltk')}"
    matched = "words and stems" if stems else "words"
    if wordnet:
        matched = "words, stems and synonyms"
    elif language == "en":
        matched += ", no synonyms (no WordNet)"
    else:
        matched += ", no synonyms"
    explanation = f"{matched}, in order; mean of sentences"
    return Score("METEOR", 100 * total / len(references), signature, explanation)


def compare(first: Sequence[str], second: Sequence[str], references: Sequence[str]) -> list[Comparison]:
    """Is one better, or just lucky? sacreBLEU's paired bootstrap, for BLEU (13a, cased) and chrF2.

    It draws as many sentences from the test set, with repetition, 1,000 times, and scores both systems on each draw.

    Args:
        first: the translations of the system to compare with, detokenised.
        second: the other's.
        references: what both should be.

    Raises:
        ValueError: if they differ in number, or are empty.
    """
    _check(first, references)
    _check(second, references)
    test = PairedTest(
        [("first", list(first)), ("second", list(second))],
        {"BLEU": BLEU(force=True), "chrF2": CHRF()},
        [list(references)],
        test_type="bs",
    )
    signatures, results = test()
    found = []
    for name, signature in signatures.items():
        one, other = cast(list[Any], results[name])
        p = 1.0 if list(first) == list(second) else other.p_value  # sacreBLEU would call no difference significant
        found.append(Comparison(name, one.score, other.score, p, str(signature)))
    return found


def score_table(columns: Sequence[Sequence[Score]]) -> str:
    """Scores for people: a line for each with its explanation, then the signatures.

    Args:
        columns: each system's `scores`; where there are several, they are numbered from 1.
    """
    numbers = ["score"] if len(columns) == 1 else [f"{i + 1}" for i in range(len(columns))]
    rows = [[row[0].name, *(s.value for s in row), row[0].explanation] for row in zip(*columns, strict=True)]
    table = tabulate(rows, ["", *numbers, "what it compares"], floatfmt=".2f")
    return f"{table}\n\n{tabulate([[s.name, s.signature] for s in columns[0]], tablefmt='plain')}"


def comparison_table(comparisons: Sequence[Sequence[Comparison]]) -> str:
    """Comparisons with the first system for people.

    Args:
        comparisons: each other system's, in order: they are numbered from 2.
    """
    rows = [
        [c.metric, f"{i} - 1", f"{c.second - c.first:+.2f}", f"{c.p:.3f}"]
        for i, several in enumerate(comparisons, 2)
        for c in several
    ]
    table = tabulate(
        rows, ["", "systems", "difference", "p"], disable_numparse=True, colalign=("left",) + ("right",) * 3
    )
    signatures = tabulate([[c.metric, c.signature] for c in comparisons[0]], tablefmt="plain")
    return (
        f"{table}\n\n"
        "p: how often chance alone makes a larger difference, if both are equally good; below 0.05 is\n"
        f"usually believed. By paired bootstrap, sacreBLEU's:\n{signatures}"
    )


@cache
def _moses(language: str) -> Any:
    from sacremoses import MosesTokenizer  # here, because it takes long to import

    return MosesTokenizer(language)


def _tokenizer(language: str) -> str:
    """What `tokenized` does, in a signature."""
    return f"sacremoses-{version('sacremoses')}-{language}"


def _wordnet() -> Any | None:
    """NLTK's WordNet, if it is on this machine; it is never fetched."""
    from nltk.corpus import wordnet

    try:
        wordnet.ensure_loaded()
    except (LookupError, OSError):  # there is none, or only a part of it
        return None
    return wordnet


def _check(hypotheses: Sequence[object], references: Sequence[object]) -> None:
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"one reference a hypothesis is needed; got {len(hypotheses)} and {len(references)}")
