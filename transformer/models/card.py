"""Model cards: training data, limitations, evaluation and training procedure of an exported model, from its files."""

import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tabulate import tabulate

from transformer.checkpoint import BEST, load_checkpoint, read_settings
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.corpora import find_corpus, is_built_in
from transformer.data.prepare import DataConfig
from transformer.errors import UserError
from transformer.files import read_json
from transformer.inspection import parameter_counts
from transformer.models import find_model, list_models
from transformer.training.run_folder import METRICS_KEYS, RECIPE, read_metrics, read_sessions

CARD, SCORES = "CARD.md", "scores.json"

RECIPE_KEYS = ("data", "model", "training")
"""What a recipe must have, because the card describes it."""

LANGUAGES = {"en": "English", "de": "German"}

LIMITATIONS = {
    "everyday": (
        "The model was trained on short sentences for learners of a language, a phrase book and captions of "
        "photographs. It translates everyday sentences of up to about fifteen words. Longer sentences, news, technical "
        "terms, idioms and many names are beyond it; its translation may then be fluent and wrong. English has one "
        "word for *du*, *ihr* and *Sie*: a translation into German picks one of them, and one into English loses the "
        "difference. The model reproduces the biases of its training data, which volunteers and a language model "
        "wrote, much of it about photographs."
    ),
    "multi30k": (
        "The model was trained on captions of photographs only: short sentences in the present tense about people, "
        "animals and visible things. It cannot translate questions, dialogue, news, numbers or most names. For such "
        "input it usually writes a fluent caption of something else, without any sign of uncertainty. It also "
        "reproduces the biases of the captions: their views of people, of who does what, and of what is worth "
        "mentioning."
    ),
    "pocket": (
        "The model knows only the few hundred words and the constructions of a small grammar. It replaces any other "
        "word with one that it knows, or spells it as nonsense."
    ),
}
"""Limitations of models by corpus; larger variants of a corpus share them: ``pocket-200k`` those of ``pocket``."""

GENERATED_FROM = {
    "pocket": "from a small grammar (`transformer/data/pocket/`)",
    "copy": "from random letters: each string is its own translation",
    "reverse": "from random letters: the translation of a string is its reverse",
}
"""What the generated corpora are made from."""


def model_card(folder: Path, name: str) -> str:
    """Return the card of an exported model, as Markdown with the usual headings of model cards.

    Args:
        folder: an exported model; the card itself may be missing.
        name: name of the model.
    """
    model, checkpoint = load_checkpoint(folder, BEST)
    recipe, scores, sessions = (
        read_settings(folder / RECIPE, RECIPE_KEYS),
        read_json(folder / SCORES),
        read_sessions(folder),
    )
    layers = "layer" if model.config.n_layers == 1 else "layers"
    data, config, averaged = recipe["data"], model.config, checkpoint.get("averaged", [])
    source, target = (LANGUAGES.get(language, language) for language in data["direction"].split("-"))
    files = [folder / checkpoint["weights"]["file"], folder / "tokenizer.model"]
    limitations = LIMITATIONS.get(
        data["corpus"].partition("-")[0], "Expect poor translations of text that differs from the training data."
    )
    if other_data := _other_data(recipe):
        corpus = _without_folders(data["corpus"])
        limitations = f"The following describes models that were trained on `{corpus}` alone. {limitations}"
    sections = [
        f"# {name}: {source} to {target}",
        f"An encoder-decoder Transformer with {sum(parameter_counts(model).values()):,} parameters: "
        f"d_model {config.d_model}, {config.n_layers} encoder and {config.n_layers} decoder {layers}, "
        f"{config.n_heads} heads, d_ff {config.d_ff}, {config.norm}-norm, and a vocabulary of {config.vocab_size:,} "
        "subwords that both languages share.",
        f'```python\nimport transformer\n\ntransformer.load("{name}").translate("…")\n```',
        "## Training data",
        _training_data(data),
        *other_data,
        "## Limitations",
        limitations,
        "## Evaluation",
        _evaluation(scores),
        "## Training procedure",
        *_initial_model(recipe, name),
        _training_procedure(sessions, scores["provenance"], last_metrics(folder, checkpoint), averaged),
        _settings(recipe),
        "## Files",
        tabulate([[f"`{file.name}`", f"{file.stat().st_size:,} bytes"] for file in files], ["file", "size"], "github"),
        f"The weights are stored as float16. Their SHA-256 is `{checkpoint['weights']['sha256']}`.",
    ]
    return "\n\n".join(sections) + "\n"


def last_metrics(folder: Path, checkpoint: dict[str, Any]) -> dict[str, float]:
    """Return the metrics of a checkpoint or, if it is an average, the last ones of its run.

    Raises:
        UserError: if there are none, or some are missing.
    """
    metrics = checkpoint.get("metrics") or (read_metrics(folder) or [{}])[-1]
    for name in METRICS_KEYS:
        if name not in metrics:
            raise UserError(f"{folder}: the metrics of its last checkpoint have no {name}, which the card needs")
    return metrics


def _training_data(data: dict[str, Any]) -> str:
    """Return a description of the corpus, with its licence and source."""
    corpus = find_corpus(data["corpus"])
    if not corpus.manifests:
        source = GENERATED_FROM[corpus.name.partition("-")[0]]
        return (
            f"The corpus `{corpus.name}`, which the course generates {source}. It is under the licence of the course, "
            "MIT."
        )
    sources = [
        f"{manifest.description or 'not described'}.\n\n*Licence of the data:* {manifest.licence or 'not stated'}.\n\n"
        f"*Source:* {manifest.citation or 'not stated'}."
        for manifest in corpus.manifests
    ]
    licence = (
        "The weights are under the licence of the course, MIT, as far as the licence of the data permits."
        if is_built_in(data["corpus"])
        else "*Licence of the weights:* not stated; the owner of the model should add it here."
    )
    return "\n\n".join([f"`{corpus.name}`: {sources[0]}", *sources[1:], licence])


def _evaluation(scores: dict[str, Any]) -> str:
    """Return a table with one column for each test set and search, and a table of the signatures."""
    test_sets, provenance = scores["test_sets"], scores["provenance"]
    device = provenance["device"].partition(" (")[0]  # such as "cpu in fp32", without the reasons
    header = ["metric"]
    for test_set in test_sets:
        search = "greedy" if test_set["beam_size"] == 1 else f"beam size {test_set['beam_size']}"
        header.append(f"{test_set['split']}, {search}")
    metrics = test_sets[0]["scores"]
    rows = [
        [metric["name"], *(f"{test_set['scores'][i]['value']:.2f}" for test_set in test_sets)]
        for i, metric in enumerate(metrics)
    ]
    # A table needs "|" escaped, even in code.
    signatures = [[metric["name"], f"`{metric['signature']}`".replace("|", "\\|")] for metric in metrics]
    return "\n\n".join(
        [
            tabulate(rows, header, "github", disable_numparse=True),
            f"Beam search with a length penalty of {max(test_set['length_penalty'] for test_set in test_sets)}. "
            f"Measured on {provenance['date']} at commit {provenance['commit']} on {provenance['machine']} ({device}), "
            f"with {provenance['versions']}.",
            tabulate(signatures, ["metric", "signature"], "github"),
        ]
    )


def _training_procedure(
    sessions: list[dict[str, Any]], exported: dict[str, Any], metrics: dict[str, float], averaged: list[str]
) -> str:
    """Return the commands, a table of the sessions of training, and the last metrics.

    Args:
        sessions: the provenance of each session: a run that was interrupted and resumed has several.
        exported: the provenance of the export.
        metrics: those of the exported checkpoint or, if it is an average, of the last step before it.
        averaged: names of the checkpoints that were averaged; empty if it is not an average.
    """
    commands = dict.fromkeys(
        shlex.join(map(_without_folders, shlex.split(session["command"])))
        for session in (*sessions, exported)
        if session["command"]
    )
    columns = {"from step": "step", "date": "date", "commit": "commit", "machine": "machine", "device": "device"}
    columns |= {"threads": "threads", "versions": "versions"}
    rows = [[session[key] for key in columns.values()] for session in sessions]
    minutes = round(metrics["minutes"])
    duration = "1 minute" if minutes == 1 else f"{minutes} minutes"
    average = ""
    if averaged:
        average = (
            f" The weights are the average of {len(averaged)} checkpoints. After training, compute it with "
            f"`transformer average RUN {shlex.join(averaged)}`, where RUN is the run folder."
        )
    return "\n\n".join(
        [
            "```\n" + "\n".join(commands) + "\n```",
            tabulate(rows, list(columns), "github"),
            f"After {metrics['step']:,} steps, {metrics['target_tokens']:,} target tokens and {duration} of training, "
            f"the validation loss was {metrics['valid_loss']:.3f} nats per token.{average}",
        ]
    )


def _initial_model(recipe: dict[str, Any], name: str) -> list[str]:
    """Return a sentence about the model that was fine-tuned, if this one did not start from random weights."""
    if "initial_model" not in recipe:
        return []
    initial, digest = recipe["initial_model"]["name"], recipe["initial_model"]["sha256"]
    if initial == name:
        return [f"Training continued from the weights of an earlier version of this model (SHA-256 `{digest}`)."]
    initial = _without_folders(initial)
    return [f"The model was fine-tuned: training started from the weights of `{initial}` (SHA-256 `{digest}`)."]


def _other_data(recipe: dict[str, Any]) -> list[str]:
    """Return a sentence about the data of the model that was fine-tuned, if it was another corpus or isn't known."""
    if "initial_model" not in recipe:
        return []
    name = recipe["initial_model"]["name"]
    if name in list_models() and read_settings(find_model(name) / RECIPE)["data"]["corpus"] == recipe["data"]["corpus"]:
        return []
    return [
        f"Before that, its initial model `{_without_folders(name)}` was trained on data of its own, which that model's "
        "card describes."
    ]


def _settings(recipe: dict[str, Any]) -> str:
    """Return a table of the settings that differ from the defaults."""
    defaults: dict[str, DataConfig | ModelConfig | TrainingConfig]
    defaults = {"data": DataConfig(), "model": ModelConfig(), "training": TrainingConfig()}
    rows = [
        [f"{part}.{name}", _without_folders(str(recipe[part][name]))]
        for part, settings in defaults.items()
        for name, default in asdict(settings).items()
        if name in recipe[part] and recipe[part][name] != default
    ]
    table = tabulate(rows, ["setting", "value"], "github", disable_numparse=True)
    return f"{table}\n\nAll other settings have their default values."


def _without_folders(text: str) -> str:
    """Shorten the absolute paths in a word of a command, or in a setting: "--run=/me/runs/a" to "--run=a".

    A path may follow "=" or, in the name of a corpus of two files, the comma after the first one.
    """
    return re.sub(r"(^|[=,])/(?:(?!,/).)*/(?=.)", r"\1", text)
