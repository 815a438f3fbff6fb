"""Pretrained models: complete, undamaged, as good as expected, described by their cards; and how to export others."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import torch

import transformer
from transformer.checkpoint import (
    BEST,
    average_checkpoints,
    read_json,
    read_settings,
    read_tensors,
    step_checkpoints,
)
from transformer.cli import main
from transformer.config import ModelConfig, TrainingConfig
from transformer.data.corpora import sentence_pairs
from transformer.data.prepare import DataConfig, prepare
from transformer.device import choose_device
from transformer.errors import UserError
from transformer.evaluation.metrics import bleu
from transformer.models import MODELS_FOLDER, find_model, list_models, load_model
from transformer.models.card import CARD, SCORES, model_card
from transformer.models.export import export
from transformer.recipes import RECIPES
from transformer.training.loop import train
from transformer.training.run_folder import METRICS, RECIPE, SESSIONS, differences, read_sessions
from transformer.translator import Translator

pytestmark = pytest.mark.slow

LARGEST = {
    "everyday": 12,
    "everyday-de-en": 12,
    "multi30k": 12,
    "multi30k-de-en": 12,
    "pocket-small": 3,
    "pocket-large": 12,
}
"""Megabytes of the weights and the tokenizer together."""
CAPTIONS = Path(__file__).parent / "captions.tsv"
"""Captions of our own in the manner of Multi30k, which may not be copied: English, German."""


def test_the_pretrained_models() -> None:
    assert list_models() == sorted(LARGEST)


@pytest.mark.parametrize("name", LARGEST)
def test_a_pretrained_model_is_whole_and_small(name: str) -> None:
    folder = MODELS_FOLDER / name
    weights = read_tensors(folder, BEST, "weights")  # which verifies the checksum
    assert {weight.dtype for weight in weights.values()} == {torch.float16}
    (file,) = folder.glob("*.safetensors")
    assert file.stat().st_size + (folder / "tokenizer.model").stat().st_size <= LARGEST[name] * 10**6
    assert {p.name for p in folder.iterdir()} == {
        file.name, "tokenizer.model", f"{BEST}.json", RECIPE, METRICS, SESSIONS, SCORES, CARD,
    }  # fmt: skip


CONTINUED = {
    f"training.{name}"
    for name in ("steps", "batch_tokens", "warmup_steps", "learning_rate_factor", "average_steps", "seed")
}
"""Settings that may differ from the recipe's in a model whose training was continued."""


@pytest.mark.parametrize("name", LARGEST)
def test_a_pretrained_model_is_what_its_recipe_makes(name: str) -> None:
    recipe = RECIPES[name]
    settings = {"data": recipe.data, "model": recipe.model, "training": recipe.training}
    was = read_settings(MODELS_FOLDER / name / RECIPE)
    now = json.loads(json.dumps({part: vars(value) for part, value in settings.items()}, default=vars))
    changed = {text.partition(":")[0] for text in differences({part: was[part] for part in settings}, now)}
    assert changed <= (CONTINUED if "initial_model" in was else set())


@pytest.mark.parametrize("name", LARGEST)
def test_a_card_agrees_with_the_files(name: str) -> None:
    assert (MODELS_FOLDER / name / CARD).read_text("utf-8") == model_card(MODELS_FOLDER / name, name)
    scores = read_json(MODELS_FOLDER / name / SCORES)
    assert scores["weights"] == read_json(MODELS_FOLDER / name / f"{BEST}.json")["weights"]["sha256"]
    commands = [
        scores["provenance"]["command"],
        *(session["command"] for session in read_sessions(MODELS_FOLDER / name)),
    ]
    assert not any(" /" in command for command in commands), "somebody's own folders"


@pytest.mark.parametrize("name", ["pocket-small", "pocket-large"])
def test_a_pocket_model_translates_unseen_sentences(name: str) -> None:
    pairs = list(sentence_pairs("pocket", "test"))[:100]
    translations = [best.text for (best,) in load_model(name, "cpu").beam_search([source for source, _ in pairs])]
    assert bleu(translations, [target for _, target in pairs]).value >= 98


@pytest.mark.parametrize("name", ["multi30k", "multi30k-de-en"])
def test_a_captions_model_translates_captions(name: str) -> None:
    pairs = [line.split("\t") for line in CAPTIONS.read_text("utf-8").splitlines()]
    if name.endswith("de-en"):
        pairs = [pair[::-1] for pair in pairs]
    translations = [best.text for (best,) in load_model(name, "cpu").beam_search([source for source, _ in pairs])]
    assert bleu(translations, [target for _, target in pairs]).value >= 70


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps on the copy task."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSFORMER_DATA", str(tmp_path_factory.mktemp("data")))
        data = DataConfig("copy", max_train_pairs=60)
        shape = ModelConfig(57, 32, 4, 64, 1, max_length=64)
        config = TrainingConfig(steps=4, batch_tokens=200, validate_every=2, validation_sentences=2, average_steps=2)
        settings = {
            "data": vars(data) | {"cleaning": vars(data.cleaning)},
            "model": vars(shape),
            "training": vars(config),
        }
        train(folder, prepare(data, 57), shape, config, choose_device("cpu"), settings, on_validation=lambda _: None)
    return folder


@pytest.fixture(autouse=True)
def short_test_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test sets of twenty sentences."""
    for module in ("transformer.models.export", "transformer.evaluation.evaluate"):
        monkeypatch.setattr(f"{module}.sentence_pairs", lambda *about: islice(sentence_pairs(*about), 20))


def exported(run: Path, folder: Path, *splits: str) -> list[str]:
    return list(export(run, folder, choose_device("cpu"), splits))


def test_an_exported_model_translates_as_the_run_does(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "mine")
    sentences = ["a b c", "d e f g h"]
    assert load_model(tmp_path / "mine").greedy_search(sentences) == load_model(run).greedy_search(sentences)
    was, now = (Translator.load(folder).model.state_dict() for folder in (run, tmp_path / "mine"))
    for name, weight in was.items():
        assert now[name].dtype == torch.float32 and now[name].equal(weight.half().float() if weight.ndim else weight)


def test_the_scores_are_those_of_what_was_exported(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = exported(run, tmp_path / "mine")
    scores = read_json(tmp_path / "mine" / SCORES)
    assert [(one["split"], one["beam_size"], one["sentences"]) for one in scores["test_sets"]] == [
        ("test", 1, 20),
        ("test", 4, 20),
    ]
    main(["evaluate", str(tmp_path / "mine"), "--device", "cpu"])
    by_evaluate = read_json(tmp_path / "mine" / "test.scores.json")
    assert by_evaluate["scores"] == scores["test_sets"][1]["scores"]
    assert by_evaluate["model"]["weights"]["sha256"] == scores["weights"]
    assert f"BLEU {scores['test_sets'][1]['scores'][0]['value']:.2f}" in lines[1]


def test_a_card_has_every_fact(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "mine")
    text = (tmp_path / "mine" / CARD).read_text("utf-8")
    assert text == model_card(tmp_path / "mine", "mine")
    session = json.loads((run / SESSIONS).read_text())
    scores = read_json(tmp_path / "mine" / SCORES)
    facts = [session[key] for key in ("date", "commit", "machine", "versions")] + [scores["weights"], "d_model 32"]
    facts += [f"{score['value']:.2f}" for score in scores["test_sets"][0]["scores"]]
    facts += [score["signature"].replace("|", r"\|") for score in scores["test_sets"][0]["scores"]]
    facts += ["training.steps", "model.d_ff", "data.max_train_pairs", "licence", "## Limitations", "# mine"]
    facts += ["The corpus `copy`, which the course generates from random letters"]
    for fact in facts:
        assert fact in text, fact
    assert "model.norm" not in text, "a default"


def test_a_card_of_averaged_weights_says_so(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "best")
    assert "The weights are the average" not in (tmp_path / "best" / CARD).read_text("utf-8")
    shutil.copytree(run, tmp_path / "run")
    names = step_checkpoints(run)
    average_checkpoints(tmp_path / "run", names)
    exported(tmp_path / "run", tmp_path / "mine")
    text = (tmp_path / "mine" / CARD).read_text("utf-8")
    assert (
        re.search(r"After 4 steps, .* the validation loss was \d", text)
        and f"The weights are the average of {len(names)} checkpoints." in text
    )
    assert f"`transformer average RUN {' '.join(names)}`" in text


def test_a_card_of_a_fine_tuned_model_names_the_data_of_its_initial_model(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "mine")
    recipe = read_json(tmp_path / "mine" / RECIPE)

    def card(corpus: str) -> str:
        described = {"data": {**recipe["data"], "corpus": corpus}, "initial_model": {"name": "everyday", "sha256": "0"}}
        (tmp_path / "mine" / RECIPE).write_text(json.dumps({**recipe, **described}), "utf-8")
        return model_card(tmp_path / "mine", "mine")

    other, same = card("multi30k"), card("everyday")
    assert "its initial model `everyday` was trained on data of its own" in other
    assert "The following describes models that were trained on `multi30k` alone. The model was trained on" in other
    assert "data of its own" not in same and "alone: " not in same
    later = model_card(tmp_path / "mine", "everyday")
    assert (
        "fine-tuned" in same
        and "fine-tuned" not in later
        and "from the weights of an earlier version of this model (SHA-256 `0`)." in later
    )


def test_a_card_names_each_command_of_training_once(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "mine")
    session = json.loads((run / SESSIONS).read_text())
    first, longer = ({**session, "command": f"transformer train copy{more}"} for more in ("", " --training.steps 40"))
    lines = [json.dumps(made) + "\n" for made in (first, longer, longer)]
    (tmp_path / "mine" / SESSIONS).write_text("".join(lines), "utf-8")
    text = model_card(tmp_path / "mine", "mine")
    assert "```\ntransformer train copy\ntransformer train copy --training.steps 40\n```" in text
    assert text.count("transformer train") == 2


def test_a_card_of_a_model_of_ones_own_text_has_no_folders_and_leaves_the_licence_to_its_owner(
    run: Path, tmp_path: Path
) -> None:
    exported(run, tmp_path / "mine")
    assert "The weights are under the licence of the course" in (MODELS_FOLDER / "multi30k" / CARD).read_text("utf-8")
    folder = tmp_path / "a, b"
    folder.mkdir()
    files = [folder / "x.en", folder / "x.de"]
    for file in files:
        file.write_text("a\n")
    corpus = ",".join(map(str, files))
    recipe = read_json(tmp_path / "mine" / RECIPE)
    recipe |= {
        "data": {**recipe["data"], "corpus": corpus},
        "initial_model": {"name": f"{tmp_path}/first", "sha256": "0"},
    }
    (tmp_path / "mine" / RECIPE).write_text(json.dumps(recipe), "utf-8")
    words = ["transformer", "train", "copy", "--data.corpus", corpus, f"--run={tmp_path}/mine", "--initial-model", "m"]
    session = {**json.loads((run / SESSIONS).read_text()), "command": shlex.join(words)}
    (tmp_path / "mine" / SESSIONS).write_text(json.dumps(session) + "\n", "utf-8")
    text = model_card(tmp_path / "mine", "mine")
    assert str(tmp_path) not in text
    assert "\ntransformer train copy --data.corpus x.en,x.de --run=mine --initial-model m\n" in text
    assert re.search(r"\| data\.corpus +\| x\.en,x\.de +\|", text) and "its initial model `first` was" in text
    assert "under the licence" not in text and "*Licence of the weights:* not stated; the owner" in text


def test_exporting_again_replaces_and_leaves_nothing_else(run: Path, tmp_path: Path) -> None:
    first = exported(run, tmp_path / "mine")
    before = sorted(path.name for path in (tmp_path / "mine").iterdir())
    (tmp_path / "mine" / "test.scores.json").write_text("{}")
    assert exported(run, tmp_path / "mine") == [f"replacing the earlier export in {tmp_path / 'mine'}", *first]
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_of_something_else_is_left_alone(run: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="contains something other than an exported model"):
        exported(run, tmp_path)
    with pytest.raises(UserError, match="contains something other than an exported model"):
        exported(run, run)
    with pytest.raises(UserError, match=r"thesis\.txt is a file: choose a folder"):
        exported(run, tmp_path / "thesis.txt")
    assert (tmp_path / "thesis.txt").exists() and (run / RECIPE).exists()


def test_what_was_added_to_an_export_is_not_deleted(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "mine")
    (tmp_path / "mine" / ".git").mkdir()
    with pytest.raises(UserError, match="contains something other than an exported model"):
        exported(run, tmp_path / "mine")
    assert (tmp_path / "mine" / ".git").exists() and load_model(tmp_path / "mine")


def test_an_export_follows_a_link_to_its_folder(run: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "mine").symlink_to(tmp_path / "elsewhere")
    exported(run, tmp_path / "mine")
    assert (tmp_path / "mine").is_symlink() and load_model(tmp_path / "elsewhere")


def test_an_empty_test_set_is_skipped(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = sentence_pairs
    monkeypatch.setattr(
        "transformer.models.export.sentence_pairs",
        lambda name, split, *rest: iter([]) if split == "valid" else original(name, split, *rest),
    )
    lines = exported(run, tmp_path / "mine", "valid", "test")
    assert lines[0] == "skipped valid: it is empty" and lines[1].startswith("test, beam size 1: ")


def test_a_run_that_does_not_say_how_it_was_trained_is_not_exported(run: Path, tmp_path: Path) -> None:
    old = shutil.copytree(run, tmp_path / "old")
    (old / SESSIONS).unlink()
    with pytest.raises(UserError, match=r"has no sessions\.jsonl, which records how it was trained"):
        exported(old, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_an_unknown_split_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^\w+ has no split 'foo'; its splits are train, valid, test$"):
        exported(run, tmp_path / "mine", "test", "foo")
    assert list(tmp_path.iterdir()) == []


def test_a_test_set_that_cannot_be_read_is_skipped(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def some(corpus: str, split: str, direction: str, mirror: str | None) -> Iterator[tuple[str, str]]:
        if split == "valid":
            raise UserError("no connection")
        yield "a b", "a b"

    monkeypatch.setattr("transformer.models.export.sentence_pairs", some)
    lines = exported(run, tmp_path / "mine", "valid", "test")
    assert lines[0] == "skipped valid: no connection" and len(lines) == 3
    before = read_json(tmp_path / "mine" / SCORES)
    with pytest.raises(UserError, match="cannot be exported without scores"):
        exported(run, tmp_path / "mine", "valid")
    assert read_json(tmp_path / "mine" / SCORES) == before and [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_a_damaged_file_is_noticed(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "mine")
    (weights,) = (tmp_path / "mine").glob("*.safetensors")
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(UserError, match="is damaged"):
        load_model(tmp_path / "mine")


def test_names_and_folders(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run, tmp_path / "pocket-small")
    assert find_model("pocket-small") == MODELS_FOLDER / "pocket-small"
    assert find_model("./pocket-small") == Path("pocket-small")
    assert find_model(tmp_path / "pocket-small") == tmp_path / "pocket-small"
    assert find_model(Path("./pocket-small")) == Path("pocket-small"), "its str has no ./"
    with pytest.raises(UserError, match=r"there is no run folder poket-small, .* did you mean pocket-small\?"):
        find_model("poket-small")
    with pytest.raises(UserError, match="choose from everyday, everyday-de-en, multi30k, multi30k-de-en, "):
        find_model("runs/wmt14-big")


def test_a_pretrained_model_is_evaluated_without_touching_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted((MODELS_FOLDER / "pocket-small").iterdir())
    for language, line in (("en", "The old woman sleeps."), ("de", "Die alte Frau schläft.")):
        Path(f"own.{language}").write_text(line + "\n")
    main(["evaluate", "pocket-small", "--source", "own.en", "--reference", "own.de", "--device", "cpu"])
    assert sorted((MODELS_FOLDER / "pocket-small").iterdir()) == before
    assert {path.name for path in Path("evaluations/pocket-small").iterdir()} == {
        "own.hypotheses.txt", "own.references.txt", "own.scores.json",
    }  # fmt: skip


def test_the_commands_take_names(capsys: pytest.CaptureFixture[str]) -> None:
    main(["translate", "pocket-small", "The old woman sleeps.", "--device", "cpu"])
    assert capsys.readouterr().out == "Die alte Frau schläft.\n"
    with pytest.raises(SystemExit):
        main(["translate", "--help"])
    listed = capsys.readouterr().out
    assert all(name in listed for name in list_models())


def test_load_is_at_the_top_and_costs_nothing_before() -> None:
    assert transformer.load is load_model
    assert transformer.load("pocket-small", "cpu").translate("The old woman sleeps.") == "Die alte Frau schläft."
    program = "import sys, transformer; sys.exit('torch' in sys.modules or hasattr(transformer, 'lode'))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
