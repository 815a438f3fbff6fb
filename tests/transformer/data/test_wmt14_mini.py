"""All steps of the WMT14 chapter, on miniature archives with the official names and members."""

import copy
import hashlib
import io
import json
import tarfile
from html import escape
from pathlib import Path

import pytest

from transformer.cli import main
from transformer.data import corpora, pocket
from transformer.data.pocket import AlignedPair, Split

pytestmark = pytest.mark.slow

SMALLER = (
    "--model.vocab-size 1000 --model.d-model 32 --model.d-ff 64 --model.n-layers 1 --training.steps 30 "
    "--training.checkpoint-every 10 --training.validate-every 15 --training.validation-sentences 5"
).split()


def archive(path: Path, members: dict[str, str]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))


def lines(pairs: list[AlignedPair], side: str) -> str:
    return "".join(f"{getattr(pair, side)}\n" for pair in pairs)


def sgm(pairs: list[AlignedPair], side: str) -> str:
    segments = [f'<seg id="{i}">{escape(getattr(pair, side))}</seg>\n' for i, pair in enumerate(pairs, 1)]
    return f'<srcset setid="newstest2014">\n<doc docid="a">\n{"".join(segments)}</doc>\n</srcset>\n'


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "mirror"
    folder.mkdir()
    splits: dict[Split, int] = {"train": 600, "valid": 30, "test": 20}
    train, valid, test = (pocket.pairs(split, count) for split, count in splits.items())
    inside = "training/news-commentary-v9.de-en"
    archive(
        folder / "training-parallel-nc-v9.tgz",
        {f"{inside}.en": lines(train, "source"), f"{inside}.de": lines(train, "target")},
    )
    archive(
        folder / "dev.tgz",
        {"dev/newstest2013.en": lines(valid, "source"), "dev/newstest2013.de": lines(valid, "target")},
    )
    inside = "test-full/newstest2014-deen"
    archive(
        folder / "test-full.tgz",
        {f"{inside}-src.en.sgm": sgm(test, "source"), f"{inside}-ref.de.sgm": sgm(test, "target")},
    )
    manifests = copy.deepcopy(corpora.corpus_manifests())
    for name, file in manifests["wmt14-mini"]["files"].items():
        file["digest"] = "sha256:" + hashlib.sha256((folder / name).read_bytes()).hexdigest()
        file.pop("size", None)
    monkeypatch.setattr(corpora, "corpus_manifests", lambda: manifests)
    monkeypatch.setenv("TRANSFORMER_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return folder


def test_prepare_train_average_evaluate(mirror: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["prepare", "wmt14-mini", "--mirror", str(mirror), *SMALLER])
    main(["train", "wmt14-mini", *SMALLER])  # all files are in the cache now
    run = Path("runs/wmt14-mini")
    assert sorted(path.stem for path in run.glob("step-*.json")) == ["step-0000010", "step-0000020", "step-0000030"]
    main(["average", str(run), "--last", "2"])
    assert json.loads((run / "averaged.json").read_text())["averaged"] == ["step-0000020", "step-0000030"]
    capsys.readouterr()
    main(["evaluate", str(run)])
    said = capsys.readouterr().out
    assert "20 sentences" in said and "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in said
    assert len((run / "test.hypotheses.txt").read_text().splitlines()) == 20
    main(["curves", str(run), "--output", "curves.png"])
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")
    main(["translate", str(run), "The old woman opens the window."])
