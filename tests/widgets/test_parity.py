"""The page's model is the package's: the modules of book/widgets give PyTorch's numbers, under Node.

PyTorch's answers are made here, at test time. Weights of 16 bits are the same numbers on both sides, and both compute
in 32 bits or more; what is left between them is rounding.
"""

import json
import os
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tests.widgets.hard_strings import hard_strings
from transformer.checkpoint import BEST, load_checkpoint, save_checkpoint
from transformer.config import ModelConfig
from transformer.data.corpora import sentence_pairs
from transformer.data.tokenizer import BOS, EOS, Tokenizer
from transformer.decoding import Candidate, beam_search, greedy_search
from transformer.errors import UserError
from transformer.inspection import ablate_heads, record_attention
from transformer.model import Transformer
from transformer.models import FOLDER

ROOT = Path(__file__).parents[2]
WIDGETS = ROOT / "book" / "widgets"
CAPTIONS = ROOT / "tests" / "transformer" / "captions.tsv"

TOLERANCE = 1e-4
"""Between two logits, which are about 10 in size, and between two attention weights."""
SCORE_TOLERANCE = 1e-3
"""Between two scores, which are sums over a whole sentence."""
SENTENCES = {"pocket-small": 140, "multi30k": 30, "multi30k-de-en": 30}
SETTINGS = [(4, 0.6, 4), (1, 0.6, 1), (2, 0.0, 1), (6, 1.0, 3)]
"""Beam, alpha and n_best: sentences take turns."""
SHAPES = {
    "post": ModelConfig(40, 16, 2, 32, 2, norm="post", tie_embeddings="none", max_length=30),
    "learned": ModelConfig(40, 24, 3, 16, 1, norm="pre", tie_embeddings="decoder", positions="learned", max_length=12),
}
"""Small models with other settings than those that ship; the second one's translations reach its limit."""
FAULTS = {
    "no √d_model": ("model.mjs", "value * Math.sqrt(d_model) + where[i]", "value + where[i]"),
    "scores not scaled": ("model.mjs", "score / Math.sqrt(d_head)", "score"),
    "no positions": ("model.mjs", " + where[i]", ""),
    "one norm forgotten": ("model.mjs", "x = layerNorm(x, this.decoder_norm)", "x = [...x]"),
    "a blind encoder": ("model.mjs", "attend(read[i], positions,", "attend(read[i], positions.slice(0, i + 1),"),
    "heads stay on": ("model.mjs", "this.model.off[this.name]?.includes(head)", "false"),
    "beams do not change places": ("model.mjs", "cache.past[parent].map", "cache.past[0].map"),
    "penalty one token short": ("search.mjs", "((5 + length) / 6) **", "((4 + length) / 6) **"),
    "as many candidates as beams": ("search.mjs", ".slice(0, 2 * beam)", ".slice(0, beam)"),
    "stops at the first that ends": ("search.mjs", "<= finished[nBest - 1].score", "<= 0"),
    "a limit too low": ("search.mjs", "model.config.max_length);", "model.config.max_length - 1);"),
    "unknown pieces one by one": ("tokenizer.mjs", "id !== UNK || ids[i - 1] !== UNK", "true"),
    "the last merge first": ("tokenizer.mjs", "this.scores.push(score)", "this.scores.push(-score)"),
    "no NFKC": ("tokenizer.mjs", '.normalize("NFKC")', ""),
    "no rules of the model": ("tokenizer.mjs", "const rule = this.#rule(bytes, at);", "const rule = null;"),
}  # fmt: skip


def sentences_of(name: str) -> list[str]:
    if name.startswith("pocket"):
        return [source for source, _ in sentence_pairs("pocket", "test")][: SENTENCES[name]]
    column = 1 if name.endswith("de-en") else 0
    return [line.split("\t")[column] for line in CAPTIONS.read_text("utf-8").splitlines()]


def searched(model: Transformer, source: list[int], number: int) -> dict[str, object]:
    """What both searches find, with one of the settings."""
    beam, alpha, n_best = SETTINGS[number % len(SETTINGS)]
    ids, trace = torch.tensor([source]), list[Candidate]()
    (hypotheses,) = beam_search(model, ids, beam, alpha, n_best, trace)
    return {
        "source": source,
        "greedy": greedy_search(model, ids)[0],
        "beam": beam,
        "alpha": alpha,
        "n_best": n_best,
        "hypotheses": [asdict(one) for one in hypotheses],
        "trace": [asdict(one) for one in trace],
    }


@torch.inference_mode()
def forwarded(
    model: Transformer, source: list[int], target: list[int], off: dict[str, list[int]]
) -> dict[str, torch.Tensor]:
    """Logits and every head's attention weights, by the layer's name."""
    with ablate_heads(model, off), record_attention(model) as weights:
        logits = model(torch.tensor([source]), torch.tensor([target]))
    return {"logits": logits[0], **{name: weight[0] for name, weight in weights.items()}}


def tokenized(tokenizer: Tokenizer, text: str) -> dict[str, object]:
    """What becomes of a text; ``replaced`` is by the model's own rules alone, where "▁" does not blur what they did."""
    try:
        ids = tokenizer.encode(text)
    except UserError:
        return {"text": text, "ids": None}
    rules = tokenizer.processor.normalize(text).removeprefix("▁").replace("▁", " ")
    return {
        "text": text,
        "normal": tokenizer.normalize(text),
        "replaced": None if "▁" in text else rules,
        "ids": ids,
        "decoded": tokenizer.decode(ids),
    }


def expect(
    folder: Path,
    name: str,
    run: Path,
    model: Transformer,
    sources: list[list[int]],
    texts: list[str],
    strings: list[str],
) -> dict[str, object]:
    """PyTorch's answers for one model: what the Node test reads."""
    searches = [searched(model, source, number) for number, source in enumerate(sources)]
    tokenizer = Tokenizer.load(run / "tokenizer.model") if texts else None
    for one, text in zip(searches, texts, strict=False):
        one |= {"text": text, "translations": [tokenizer.decode(h["tokens"]) for h in one["hypotheses"]]}
    last = f"decoder.{model.config.n_layers - 1}.cross_attention"
    forward, tensors = [], {}
    for i, one in enumerate(searches[:6]):
        off = {last: [0], "encoder.0.self_attention": [1]} if i % 2 else {}
        case = {"source": one["source"], "target": [BOS, *one["greedy"]][:20], "off": off}
        forward.append(case)
        tensors |= {f"{i}.{part}": tensor.contiguous() for part, tensor in forwarded(model, **case).items()}
    safetensors.torch.save_file(tensors, folder / f"{name}.safetensors")
    return {
        "name": name,
        "folder": str(run),
        "forward": forward,
        "searches": searches,
        "strings": [tokenized(tokenizer, text) for text in strings] if tokenizer else [],
    }


def write_expected(folder: Path, counts: dict[str, int], strings: int) -> Path:
    """Ask PyTorch, and leave its answers in a folder."""
    models = []
    for name, count in counts.items():
        model, _ = load_checkpoint(FOLDER / name, BEST)
        texts = sentences_of(name)[:count]
        sources = [[*Tokenizer.load(FOLDER / name / "tokenizer.model").encode(text), EOS] for text in texts]
        models.append(expect(folder, name, FOLDER / name, model, sources, texts, hard_strings(texts, strings)))
    for name, shape in SHAPES.items():
        torch.manual_seed(1)
        (folder / name).mkdir()
        save_checkpoint(folder / name, BEST, Transformer(shape), {})
        model, _ = load_checkpoint(folder / name, BEST)
        sources = [[*torch.randint(3, shape.vocab_size, (length,)).tolist(), EOS] for length in range(1, 9)]
        models.append(expect(folder, name, folder / name, model, sources, [], []))
    told = {"tolerance": TOLERANCE, "score_tolerance": SCORE_TOLERANCE, "models": models}
    (folder / "expected.json").write_text(json.dumps(told))
    return folder


def node(widgets: Path, expected: Path) -> subprocess.CompletedProcess[str]:
    """Run the Node test."""
    if shutil.which("node") is None:
        pytest.skip("no Node on this machine: the page's model is not compared with PyTorch's")
    return subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(Path(__file__).with_name("parity.test.mjs"))],
        env={**os.environ, "WIDGETS": str(widgets), "EXPECTED": str(expected)},
        capture_output=True,
        text=True,
    )


def test_the_page_computes_what_pytorch_computes(tmp_path: Path) -> None:
    ended = node(WIDGETS, write_expected(tmp_path, SENTENCES, 500))
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout[-4000:]


@pytest.fixture(scope="module")
def a_few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers to a few sentences, which a correct page gives too."""
    folder = write_expected(tmp_path_factory.mktemp("expected"), {"pocket-small": 8}, 60)
    assert node(WIDGETS, folder).returncode == 0
    return folder


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault: str, a_few: Path, tmp_path: Path) -> None:
    file, right, wrong = FAULTS[fault]
    widgets = Path(shutil.copytree(WIDGETS, tmp_path / "widgets"))
    text = (widgets / file).read_text("utf-8")
    assert text.count(right) == 1, f"{file} has changed: the fault is planted nowhere, or twice"
    (widgets / file).write_text(text.replace(right, wrong), "utf-8")
    ended = node(widgets, a_few)
    assert ended.returncode != 0 and "SyntaxError" not in ended.stdout
