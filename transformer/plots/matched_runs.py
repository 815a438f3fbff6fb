"""What BLEU sees in translations: how long a run of words each one shares with the reference."""

import re
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.textpath import TextPath

from transformer.plots import style
from transformer.plots.ngram_matches import classify_ngrams

WIDTH, LEFT, ROW = 4.2, 0.4, 0.62
"""The widths of the figure and of its left column, and the height of a row, in inches."""
FONT_SIZE = 10
BLOCK, GAP = (0.15, 0.06), 0.02
"""Width and height of a block, and the space between two, in inches."""
LONGEST = 4
"""The longest n-grams that BLEU counts."""


def longest_matches(hypothesis: Sequence[str], reference: Sequence[str]) -> list[int]:
    """Return, for each word, the length (0 to 4) of the longest n-gram around it that counts as a match in BLEU."""
    longest = [0] * len(hypothesis)
    for gram in classify_ngrams(hypothesis, reference):
        if gram.verdict == "match":
            for i in range(gram.start, gram.start + gram.n):
                longest[i] = max(longest[i], gram.n)
    return longest


def matched_runs(hypotheses: Mapping[str, str], reference: str) -> Figure:
    """Draw four blocks above each word, with as many filled as the longest matching n-gram around it has words.

    Args:
        hypotheses: label → translation.
        reference: the reference translation, drawn above the others.
    """
    with style.in_style():
        figure, axes = style.new_drawing(
            WIDTH, 0.45 + ROW * len(hypotheses), (0, WIDTH), (-0.1 - ROW * len(hypotheses), 0.35)
        )
        axes.text(LEFT - 0.1, 0, "ref.", ha="right", style="italic", fontsize=FONT_SIZE)
        axes.text(LEFT, 0, reference, fontsize=FONT_SIZE)
        for row, (label, hypothesis) in enumerate(hypotheses.items(), 1):
            x, y = LEFT, -ROW * row
            axes.text(LEFT - 0.1, y, label, ha="right", weight="bold", fontsize=FONT_SIZE)
            for text, word, length in _pieces(hypothesis, reference):
                axes.text(x, y, text, fontsize=FONT_SIZE)
                for i in range(LONGEST):
                    face, edge = (style.ALLOWED, style.ALLOWED) if i < length else ("none", style.PLAIN)
                    corner = x + (_width(word) - BLOCK[0]) / 2, y + 0.16 + i * (BLOCK[1] + GAP)
                    axes.add_patch(Rectangle(corner, *BLOCK, facecolor=face, edgecolor=edge, linewidth=0.6))
                x += _width(text) + _width("n")
    return figure


def _pieces(hypothesis: str, reference: str) -> list[tuple[str, str, int]]:
    """Split a text at spaces: (piece with punctuation, its word, the longest match of the word)."""
    lengths = iter(longest_matches(_tokens(hypothesis), _tokens(reference)))
    pieces = []
    for piece in hypothesis.split():
        tokens = _tokens(piece)
        length, *_ = [next(lengths) for _ in tokens]
        pieces.append((piece, tokens[0], length))
    return pieces


def _tokens(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def _width(text: str) -> float:
    """Return the width of a text in inches, at this figure's font size."""
    return float(TextPath((0, 0), text, size=FONT_SIZE).get_extents().x1) / 72
