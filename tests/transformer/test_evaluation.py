import subprocess
import sys
from pathlib import Path

import pytest

from transformer.evaluation import bleu

REFERENCES = ["Der alte Mann öffnet die Tür nicht.", "Am Montag kommt sie zurück, weil es regnet."]
HYPOTHESES = ["Der alte Mann öffnet das Fenster nicht.", "Am Montag kommt sie zurück, weil es schneit."]


def test_equals_the_sacrebleu_command(tmp_path: Path) -> None:
    for name, lines in (("hyp", HYPOTHESES), ("ref", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    command = [sys.executable, "-m", "sacrebleu", str(tmp_path / "ref"), "-i", str(tmp_path / "hyp"), "-b", "-w", "4"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    score = bleu(HYPOTHESES, REFERENCES)
    assert score.bleu == pytest.approx(float(printed), abs=1e-4)
    assert 0 < score.bleu < 100
    assert "case:mixed" in score.signature and "tok:13a" in score.signature and "version:" in score.signature


def test_lowercase_is_said_in_the_signature() -> None:
    loud = [line.upper() for line in REFERENCES]
    assert bleu(loud, REFERENCES).bleu < bleu(loud, REFERENCES, lowercase=True).bleu == pytest.approx(100)
    assert "case:lc" in bleu(loud, REFERENCES, lowercase=True).signature


def test_unequal_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="got 1 and 2"):
        bleu(HYPOTHESES[:1], REFERENCES)
