"""The JavaScript model of the book's widgets computes the same numbers as the package: it runs under Node.

PyTorch's results are computed by the test. Quantized weights are the same numbers on both sides, and both compute with
at least 32 bits, so that only rounding errors differ.
"""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from tests.transformer.data.test_sentences import TEXTS
from tests.widgets.hard_strings import hard_strings
from transformer.attention import MultiHeadAttention
from transformer.checkpoint import BEST, load_checkpoint, save_checkpoint
from transformer.config import ModelConfig
from transformer.data.corpora import sentence_pairs
from transformer.data.sentences import split_sentences
from transformer.data.tokenizer import BOS, EOS, Tokenizer
from transformer.decoding import Candidate, beam_search, greedy_search
from transformer.errors import UserError
from transformer.inspection import ablate_heads, record_attention
from transformer.interactive.widgets import model_files, quantized
from transformer.layers import FeedForward, Residual
from transformer.model import Transformer
from transformer.models import load_model

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WIDGETS = ROOT / "book" / "widgets"
CAPTIONS = ROOT / "tests" / "transformer" / "captions.tsv"

TOLERANCE = 1e-4
"""Largest difference between logits, whose size is about 10, between attention weights, and between other outputs."""
SCORE_TOLERANCE = 1e-3
"""Largest difference between scores, which are sums over a whole sentence."""
SENTENCES = {"pocket-small": 140, "everyday": 30, "everyday-de-en": 30, "multi30k": 30, "multi30k-de-en": 30}
SETTINGS = [(4, 0.6, 4), (1, 0.6, 1), (2, 0.0, 1), (6, 1.0, 3)]
"""Beam size, length penalty and n_best; the sentences use them in turn."""
SHAPES = {
    "post": ModelConfig(40, 16, 2, 32, 2, norm="post", tie_embeddings="none", max_length=30),
    "learned": ModelConfig(40, 24, 3, 16, 1, norm="pre", tie_embeddings="decoder", positions="learned", max_length=12),
}
"""Small models with other settings than the pretrained ones; translations of the second one reach its limit."""
BYTES = ModelConfig(600, 16, 2, 32, 1, max_length=400)
"""A small model whose tokenizer falls back to bytes."""
FAULTS = {
    "no √d_model": ("model.mjs", ".map((value) => value * Math.sqrt(d_model))", ""),
    "scores not scaled": ("model.mjs", "score / Math.sqrt(d_head)", "score"),
    "no positions after the first": ("model.mjs", "this.positionVector(position))", "this.positionVector(0))"),
    "final norm missing": ("model.mjs", "x = layerNorm(x, this.decoder_norm)", "x = [...x]"),
    "causal encoder": ("model.mjs", "attend(inputs[i], positions,", "attend(inputs[i], positions.slice(0, i + 1),"),
    "heads not ablated": ("model.mjs", "this.model.ablated[this.name]?.includes(head)", "false"),
    "no residual connection": ("model.mjs", "? sum :", "? output :"),
    "recorded after the ReLU": ("model.mjs", "inner.slice()", "inner"),
    "memory's keys not recorded": ("model.mjs", "cross_attention.project(x, record)", "cross_attention.project(x)"),
    "cache not reordered": ("model.mjs", "cache.hypotheses[parent].map", "cache.hypotheses[0].map"),
    "length off by one": ("search.mjs", "((5 + length) / 6) **", "((4 + length) / 6) **"),
    "too few candidates": ("search.mjs", ".slice(0, 2 * beamSize)", ".slice(0, beamSize)"),
    "stops too early": ("search.mjs", "<= finished[nBest - 1].score", "<= 0"),
    "limit too low": ("search.mjs", "model.config.max_length);", "model.config.max_length - 1);"),
    "unknown pieces not merged": ("tokenizer.mjs", "id !== UNK || ids[i - 1] !== UNK", "true"),
    "merges in reverse order": ("tokenizer.mjs", "this.scores.push(score)", "this.scores.push(-score)"),
    "no NFKC": ("tokenizer.mjs", '.normalize("NFKC")', ""),
    "abbreviations end sentences": ("sentences.mjs", "(ABBREVIATIONS.includes(stem) || ", "("),
    "no sentence begins with a small letter": ("sentences.mjs", "text !== text.toLowerCase()", "true"),
    "ordinals end sentences": ("sentences.mjs", "!(!before || ", "!("),
    "scales ignored": ("safetensors.mjs", "integers[i] * scales[row]", "integers[i] / 127"),
    "unknown characters not as bytes": ("tokenizer.mjs", "this.bytes.length ?", "false ?"),
    "bytes decoded one by one": ("tokenizer.mjs", "bytes[start] < 0xc0 ? 1", "bytes[start] < 0xf8 ? 1"),
    "invalid bytes left out": ("tokenizer.mjs", 'text += "\\ufffd"', 'text += ""'),
    "no normalisation rules": ("tokenizer.mjs", "const rule = this.#matchRule(bytes, offset);", "const rule = null;"),
}  # fmt: skip


def sentences_of(name: str) -> list[str]:
    if name.startswith("pocket"):
        return [source for source, _ in islice(sentence_pairs("pocket", "test"), SENTENCES[name])]
    column = 1 if name.endswith("de-en") else 0
    return [line.split("\t")[column] for line in CAPTIONS.read_text("utf-8").splitlines()]


def search_results(model: Transformer, source: list[int], number: int) -> dict[str, object]:
    """Return the results of both searches, with one of the settings."""
    beam_size, length_penalty, n_best = SETTINGS[number % len(SETTINGS)]
    ids, trace = torch.tensor([source]), list[Candidate]()
    (hypotheses,) = beam_search(model, ids, beam_size, length_penalty, n_best, trace)
    return {
        "source": source,
        "greedy": greedy_search(model, ids)[0],
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "n_best": n_best,
        "hypotheses": [asdict(hypothesis) for hypothesis in hypotheses],
        "trace": [asdict(candidate) for candidate in trace],
    }


@contextmanager
def record_outputs(model: Transformer) -> Iterator[dict[str, torch.Tensor]]:
    """Record with hooks what the JavaScript model records in ``outputs``, under the same names."""
    outputs: dict[str, torch.Tensor] = {}

    def keep_output(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
            outputs[name] = output[0]

        return hook

    def keep_input(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
            outputs[name] = args[0][0]

        return hook

    def keep_projections(name: str, layer: MultiHeadAttention) -> Any:
        def hook(module: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
            if len(args) > 1:
                query, (key, value) = layer.project_query(args[0]), layer.project_memory(args[1])
            else:
                query, (key, value) = layer.project(args[0])
            for part, tensor in {"query": query, "key": key, "value": value}.items():
                outputs[f"{name}.{part}"] = layer.join_heads(tensor)[0]

        return hook

    named = ("feed_forward.inner", "encoder_norm", "decoder_norm")
    if model.config.norm == "pre":  # else its output is that of the residual connection
        named += (".norm",)
    hooks = [
        model.encoder[0].register_forward_pre_hook(keep_input("source")),
        model.decoder[0].register_forward_pre_hook(keep_input("target")),
    ]
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            hooks.append(module.register_forward_pre_hook(keep_projections(name, module)))
            hooks.append(module.output.register_forward_pre_hook(keep_input(f"{name}.heads")))
        if isinstance(module, (MultiHeadAttention, FeedForward, Residual)) or name.endswith(named):
            hooks.append(module.register_forward_hook(keep_output(name)))
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


@torch.inference_mode()
def forward_results(
    model: Transformer, source: list[int], target: list[int], ablated: dict[str, list[int]]
) -> dict[str, torch.Tensor]:
    """Return the logits, the attention weights of all heads by layer, and the outputs of all parts, by name."""
    with ablate_heads(model, ablated), record_attention(model) as weights, record_outputs(model) as outputs:
        logits = model(torch.tensor([source]), torch.tensor([target]))
    return {
        "logits": logits[0],
        **{f"weights.{name}": weight[0] for name, weight in weights.items()},
        **{f"outputs.{name}": output for name, output in outputs.items()},
    }


def tokenizer_results(tokenizer: Tokenizer, text: str) -> dict[str, object]:
    """Return the ids, the decoded text, and the text after normalisation and after the model's own ``rules`` only."""
    try:
        ids = tokenizer.encode(text)
    except UserError:
        return {"text": text, "ids": None}
    rules = tokenizer.processor.normalize(text).removeprefix("▁").replace("▁", " ")
    return {
        "text": text,
        "normalised": tokenizer.normalize(text),
        "rules": None if "▁" in text else rules,
        "ids": ids,
        "decoded": tokenizer.decode(ids),
    }


def decoding_results(tokenizer: Tokenizer, count: int = 200) -> list[dict[str, object]]:
    """Return random ids, half of which are bytes if the tokenizer has any, each with its decoded text."""
    rng = random.Random(20170612)
    ids = range(len(tokenizer))
    bytes_ = [i for i in ids if tokenizer.processor.is_byte(i)] or ids
    lists = [[rng.choice(rng.choice((ids, bytes_))) for _ in range(rng.randint(1, 12))] for _ in range(count)]
    return [{"ids": one, "decoded": tokenizer.decode(one)} for one in lists]


def text_results(count: int) -> list[tuple[str, list[str]]]:
    """Return texts with their sentences: the examples of the package's test, and random sequences of their words."""
    rng = random.Random(20170612)
    words = " ".join(TEXTS.split(" | ")).split()
    random_texts = (" ".join(rng.choices(words, k=rng.randint(1, 12))) for _ in range(count))
    texts = [*TEXTS.replace(" | ", " ").splitlines(), *hard_strings(words, 200), *random_texts]
    texts += [text.lower() for text in texts]
    return [(text, split_sentences(text)) for text in texts if text.isprintable() or text.isspace()]


def model_results(
    folder: Path,
    name: str,
    run: Path,
    model: Transformer,
    sources: list[list[int]],
    texts: list[str],
    strings: list[str],
) -> dict[str, object]:
    """Return PyTorch's results for one model, as the Node test reads them."""
    searches = [search_results(model, source, number) for number, source in enumerate(sources)]
    tokenizer = Tokenizer.load(run / "tokenizer.model") if texts else None
    for result, text in zip(searches, texts, strict=False):
        result |= {"text": text, "translations": [tokenizer.decode(h["tokens"]) for h in result["hypotheses"]]}
    last = f"decoder.{model.config.n_layers - 1}.cross_attention"
    forward, tensors = [], {}
    for i, result in enumerate(searches[:6]):
        ablated = {last: [0], "encoder.0.self_attention": [1]} if i % 2 else {}
        case = {"source": result["source"], "target": [BOS, *result["greedy"]][:20], "ablated": ablated}
        forward.append(case)
        tensors |= {
            f"{i}.{part}": tensor.clone(memory_format=torch.contiguous_format)
            for part, tensor in forward_results(model, **case).items()
        }
    safetensors.torch.save_file(tensors, folder / f"{name}.safetensors")
    return {
        "name": name,
        "folder": str(run),
        "forward": forward,
        "searches": searches,
        "strings": [tokenizer_results(tokenizer, text) for text in strings] if tokenizer else [],
        "decodings": decoding_results(tokenizer) if tokenizer else [],
    }


def write_expected(folder: Path, counts: dict[str, int], strings: int) -> Path:
    """Compute PyTorch's results, and write them into a folder."""
    models = []
    for name, count in counts.items():
        translator, texts, run = load_model(name, "cpu"), sentences_of(name)[:count], folder / name
        run.mkdir()
        for file, data in model_files(translator).items():
            (run / file).write_bytes(data)
        model, sources = quantized(translator).model, [translator.encode(text) for text in texts]
        safetensors.torch.save_file(dict(model.named_parameters()), run / "expected.safetensors")
        models.append(model_results(folder, name, run, model, sources, texts, hard_strings(texts, strings)))
    for name, shape in SHAPES.items():
        torch.manual_seed(1)
        (folder / name).mkdir()
        save_checkpoint(folder / name, BEST, Transformer(shape), {})
        model, _ = load_checkpoint(folder / name, BEST)
        sources = [[*torch.randint(3, shape.vocab_size, (length,)).tolist(), EOS] for length in range(1, 9)]
        models.append(model_results(folder, name, folder / name, model, sources, [], []))
    texts, run = sentences_of("multi30k")[:4], folder / "bytes"
    models.append(model_results(folder, "bytes", run, *byte_model(run, texts), hard_strings(texts, strings)))
    texts = text_results(10 * strings)
    expected = {"tolerance": TOLERANCE, "score_tolerance": SCORE_TOLERANCE, "models": models, "texts": texts}
    (folder / "expected.json").write_text(json.dumps(expected))
    return folder


def byte_model(run: Path, texts: list[str]) -> tuple[Transformer, list[list[int]], list[str]]:
    """Save a small random model with a tokenizer that falls back to bytes; return it, its sources and their texts."""
    tokenizer = Tokenizer.train(sentences_of("multi30k"), BYTES.vocab_size, byte_fallback=True)
    texts = [f"{text} 🙂 日本" for text in texts]
    torch.manual_seed(2)
    run.mkdir()
    save_checkpoint(run, BEST, Transformer(BYTES), {})
    (run / "tokenizer.model").write_bytes(tokenizer.model)
    return load_checkpoint(run, BEST)[0], [[*tokenizer.encode(text), EOS] for text in texts], texts


def node(widgets: Path, expected: Path) -> subprocess.Popen[str]:
    """Start the Node test."""
    if shutil.which("node") is None:
        pytest.skip("Node is not installed: the JavaScript model is not compared with PyTorch")
    return subprocess.Popen(
        ["node", "--test-reporter=tap", str(Path(__file__).with_name("parity.test.mjs"))],
        env={**os.environ, "WIDGETS": str(widgets), "EXPECTED": str(expected)},
        stdout=subprocess.PIPE,
        text=True,
    )


def run_to_the_end(widgets: Path, expected: Path) -> None:
    """Run the Node test and show its output; all of its tests must pass."""
    with node(widgets, expected) as process:
        output, _ = process.communicate()
    print(output)
    assert process.returncode == 0, output[-4000:]


def first_failure(widgets: Path, expected: Path) -> str:
    """Run the Node test until one of its tests fails; return what it reports of that one, or nothing."""
    failure = ""
    with node(widgets, expected) as process:
        assert process.stdout
        for line in process.stdout:
            if failure and line.startswith("# Subtest"):
                process.kill()
                break
            if failure or line.startswith("not ok"):
                failure += line
    return failure


@pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_javascript_computes_what_pytorch_computes(share: int, tmp_path: Path) -> None:
    """For a fifth of the sentences in every run, and for all of them weekly."""
    counts = {name: count // share for name, count in SENTENCES.items()}
    run_to_the_end(WIDGETS, write_expected(tmp_path, counts, 500 // share))


@pytest.fixture(scope="module")
def few_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PyTorch's results for a few sentences, which the unchanged modules reproduce."""
    folder = write_expected(tmp_path_factory.mktemp("expected"), {"pocket-small": 8}, 60)
    run_to_the_end(WIDGETS, folder)
    return folder


FIRST_FAULTS = {file: fault for fault, (file, _, _) in reversed(FAULTS.items())}.values()
"""The first fault of each module."""


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=[] if fault in FIRST_FAULTS else pytest.mark.soak) for fault in FAULTS]
)
def test_a_fault_is_detected(fault: str, few_results: Path, tmp_path: Path) -> None:
    """One fault in each module in every run, and all of them weekly."""
    file, right, wrong = FAULTS[fault]
    widgets = Path(shutil.copytree(WIDGETS, tmp_path / "widgets"))
    text = (widgets / file).read_text("utf-8")
    assert text.count(right) == 1, f"{file} has changed: the text of the fault must occur exactly once"
    (widgets / file).write_text(text.replace(right, wrong), "utf-8")
    failure = first_failure(widgets, few_results)
    assert failure and "SyntaxError" not in failure
