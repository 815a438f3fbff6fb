"""How good a translation is: BLEU, with the signature that says which BLEU."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU


@dataclass(frozen=True)
class Score:
    """A corpus score and how it was computed."""

    bleu: float
    """0 to 100."""
    signature: str
    """sacreBLEU's: tokenisation, casing, smoothing, version."""

    def __str__(self) -> str:
        return f"BLEU {self.bleu:.2f}  {self.signature}"


def bleu(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False) -> Score:
    """Corpus BLEU with sacreBLEU's 13a tokenisation, one reference each.

    Args:
        hypotheses: translations, detokenised.
        references: what they should be, in the same order.

    Raises:
        ValueError: if the two differ in number, or are empty.
    """
    if len(hypotheses) != len(references) or not references:
        raise ValueError(f"one reference a hypothesis is needed; got {len(hypotheses)} and {len(references)}")
    metric = BLEU(tokenize="13a", lowercase=lowercase)
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(score.score, str(metric.get_signature()))
