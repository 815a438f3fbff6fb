"""Split a text into sentences by a few rules for English and German, for models that were trained on single sentences.

``book/widgets/sentences.mjs`` has the same rules, so that the live translator splits a text as the command line does.
"""

import re

ABBREVIATIONS = frozenset("mr mrs ms dr prof st mt hr fr vs ca approx bzw bspw evtl ggf inkl sog vgl".split())
"""Words whose full stop does not end a sentence."""
BEFORE_NUMBERS = frozenset("no nr jan feb mar apr jun jul aug sep sept oct okt nov dec dez".split())
"""Words whose full stop does not end a sentence if a number follows."""
BEFORE_ORDINALS = frozenset("der die das dem den des im vom zum zur beim".split())
"""German words after which the full stop of a number makes it an ordinal: ``im 3. Stock``."""
AFTER_ORDINALS = re.compile(
    r"""(?ix) (?: Januar | Jänner | Februar | Feber | März | April | Mai | Juni | Juli | August | September | Oktober
    | November | Dezember | (?: Jan | Feb | Apr | Jun | Jul | Aug | Sept? | Okt | Nov | Dez )\.
    | Jahrhunderts? | Geburtstag(?: e?s )? ) (?! \w )"""
)
"""German words before which a number with a full stop is also an ordinal: ``am 3. Mai``, but not ``30. Maike``."""

OPENING, MARKS, CLOSING = """"'„“‚‘«»([""", ".!?…", """"'“”‘’«»)]"""
"""What may precede a word; the marks that may end a sentence; and what may follow them."""
LETTERS = re.compile(r"(?:[a-zäöü]\.)*[a-hj-zäöü]")
"""An initial or abbreviated words, such as the ``z.B`` of ``z.B.``; not ``I``, which often ends a sentence."""
LOWER_CASE = re.compile(r"""["'„“‚‘«»(\[]*[a-zäöüß]""")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text in their order, with single spaces between words.

    The rules make mistakes, for example inside direct speech. A full stop without a space after it never ends a
    sentence. Before a word in lower case, it does so only in a text without capitals.
    """
    words = text.split()
    has_capitals = text != text.lower()
    sentences, start = [], 0
    for end in range(1, len(words) + 1):
        before = words[end - 2] if end - 1 > start else ""
        if end == len(words) or _ends_sentence(before, words[end - 1], words[end], has_capitals):
            sentences.append(" ".join(words[start:end]))
            start = end
    return sentences


def _ends_sentence(before: str, word: str, following: str, has_capitals: bool) -> bool:
    """Return whether a word ends its sentence.

    Args:
        before: the word of the sentence before this one; empty if this is its first.
        following: the next word of the text.
        has_capitals: whether the text has capitals, so that a sentence can be expected to begin with one.
    """
    with_marks = word.rstrip(CLOSING)  # one regular expression for all three could take quadratic time
    stem = with_marks.rstrip(MARKS)
    marks, closing = with_marks[len(stem) :], word[len(with_marks) :]
    stem = stem.lstrip(OPENING).lower()
    if not marks:
        return False
    if LOWER_CASE.match(following) and (has_capitals or marks != "." or closing):
        return marks[-1] in "!?" and not closing  # "Stop!" he said. But: hello! how are you?
    if marks != ".":
        return True
    if re.fullmatch("[0-9]{1,2}", stem):
        return not (not before or before.lower() in BEFORE_ORDINALS or AFTER_ORDINALS.match(following))
    if re.match("[0-9]", following) and (stem in BEFORE_NUMBERS or stem.endswith("str")):
        return False
    if has_capitals and stem in ("a.m", "p.m"):
        return True
    is_abbreviation = stem in ABBREVIATIONS or LETTERS.fullmatch(stem) or not has_capitals and stem in ("etc", "usw")
    return not is_abbreviation
