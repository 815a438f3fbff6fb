"""A model's card: what it learned from, how, where, how good it is, and what it cannot do. Made from its files only."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from tabulate import tabulate

from transformer.checkpoint import BEST, load_checkpoint, read_json, read_settings
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.corpora import FileCorpus, find_corpus
from transformer.data.prepare import DataConfig
from transformer.inspection import parameter_counts
from transformer.training.run_folder import RECIPE, read_metrics, read_sessions

CARD, SCORES = "CARD.md", "scores.json"

LANGUAGES = {"en": "English", "de": "German"}

CANNOT = {
    "multi30k": (
        "It has read captions of photographs and nothing else: short sentences in the present tense about people, "
        "animals and things that can be seen. Questions, speech, news, numbers and most names are beyond it; it then "
        "writes a fluent caption of something else, and says nothing of its doubt. The captions' own views of people, "
        "of who does what, and of what is worth telling, are in it too."
    ),
    "pocket": (
        "It knows the few hundred words of a small grammar and its constructions, and those only. Any other word is "
        "replaced by one that it knows, or spelled into nonsense."
    ),
}
"""What models of a corpus cannot do, or of a larger one of its kind: of ``pocket-200k`` as of ``pocket``."""


def card(folder: Path, name: str) -> str:
    """The card of an exported model, as Markdown.

    Args:
        folder: an exported model, of which only the card may be missing.
        name: the model's.
    """
    model, facts = load_checkpoint(folder, BEST)
    recipe, scores, sessions = read_settings(folder / RECIPE), read_json(folder / SCORES), read_sessions(folder)
    data = recipe["data"]
    source, target = (LANGUAGES.get(language, language) for language in data["direction"].split("-"))
    shape = model.config
    files = [folder / facts["weights"]["file"], folder / "tokenizer.model"]
    last = facts.get("metrics") or read_metrics(folder)[-1]
    commands = dict.fromkeys(made["command"] for made in (*sessions, scores["provenance"]))
    parts = [
        f"# {name}: {source} to {target}",
        f"An encoder-decoder Transformer with {sum(parameter_counts(model).values()):,} parameters: "
        f"d_model {shape.d_model}, {shape.n_layers} + {shape.n_layers} layers, {shape.n_heads} heads, "
        f"d_ff {shape.d_ff}, {shape.norm}-norm, {shape.vocab_size:,} subwords for both languages.",
        f'```python\nimport transformer\n\ntransformer.load("{name}").beam_search(["…"])\n```',
        "## What it learned from",
        _data(data),
        "## What it cannot do",
        CANNOT.get(data["corpus"].partition("-")[0], "Text of another kind than it learned from."),
        "## How good it is",
        _scores(scores),
        "## How it was made",
        " ".join(f"`{command}`." for command in commands if command),
        _made(sessions, last),
        _settings(recipe),
        "## Files",
        tabulate([[f"`{file.name}`", f"{file.stat().st_size:,} bytes"] for file in files], ["file", "size"], "github"),
        f"The weights are float16; their sha256 is `{facts['weights']['sha256']}`.",
    ]
    return "\n\n".join(parts) + "\n"


def _data(data: dict[str, Any]) -> str:
    corpus = find_corpus(data["corpus"])
    if not isinstance(corpus, FileCorpus):
        return (
            f"The corpus `{data['corpus']}`, which the course makes itself, by a grammar (`transformer/data/pocket/`): "
            "under the course's own licence, MIT."
        )
    manifest = corpus.manifest
    lines = [
        f"`{corpus.name}`: {manifest.description or 'no description'}.",
        f"*Licence of the data:* {manifest.licence or 'not stated'}.",
        f"*Source:* {manifest.citation or 'not stated'}.",
        "The weights are under the course's own licence, MIT, as far as the data's allows.",
    ]
    return "\n\n".join(lines)


def _scores(scores: dict[str, Any]) -> str:
    """A table with a column a test set and search, and the signatures."""
    sets = scores["test_sets"]
    header = ["score"] + [
        f"{one['split']}, {'greedy' if one['beam'] == 1 else 'beam ' + str(one['beam'])}" for one in sets
    ]
    names = [score["name"] for score in sets[0]["scores"]]
    rows = [[name, *(f"{one['scores'][i]['value']:.2f}" for one in sets)] for i, name in enumerate(names)]
    signatures = [[score["name"], f"`{score['signature']}`"] for score in sets[0]["scores"]]
    made = scores["provenance"]
    return "\n\n".join(
        [
            tabulate(rows, header, "github", disable_numparse=True),
            f"Beam search has the length penalty {max(one['alpha'] for one in sets)}. "
            f"Measured on {made['date']}, commit {made['commit']}, {made['machine']}, {made['versions']}.",
            tabulate(signatures, ["score", "signature"], "github"),
        ]
    )


def _made(sessions: list[dict[str, Any]], last: dict[str, float]) -> str:
    columns = {"after step": "step", "date": "date", "commit": "commit", "machine": "machine", "device": "device"}
    columns |= {"threads": "threads", "versions": "versions"}
    table = tabulate([[one[key] for key in columns.values()] for one in sessions], list(columns), "github")
    return (
        f"{table}\n\n{last['step']:,} steps, {last['target_tokens']:,} target tokens, {last['minutes']:.0f} minutes; "
        f"validation loss {last['valid_loss']:.3f} nats a token."
    )


def _settings(recipe: dict[str, Any]) -> str:
    """Each setting that is not the default."""
    defaults: dict[str, DataConfig | ModelConfig | TrainingConfig]
    defaults = {"data": DataConfig(), "model": ModelConfig(), "training": TrainingConfig()}
    rows = [
        [f"{part}.{name}", recipe[part][name]]
        for part, settings in defaults.items()
        for name, default in asdict(settings).items()
        if name in recipe[part] and recipe[part][name] != default
    ]
    return tabulate(rows, ["setting", "value"], "github", disable_numparse=True) + "\n\nAll others are the defaults."
