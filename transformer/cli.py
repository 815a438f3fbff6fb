"""The command ``transformer``: from preparing data to translating; ``transformer --help`` lists what it can do."""

import dataclasses
import difflib
import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import torch
import tyro
from tyro.conf import Positional, arg, subcommand

from transformer.checkpoint import average_checkpoints, read_json, step_checkpoints, write_atomically
from transformer.config import PRESETS
from transformer.data.prepare import PreparedData
from transformer.data.prepare import prepare as prepare_data
from transformer.data.statistics import corpus_statistics
from transformer.device import Device, DeviceName, Precision, choose_device
from transformer.errors import UserError
from transformer.evaluation.evaluate import assess
from transformer.inspection import parameter_table
from transformer.model import Transformer
from transformer.models import FOLDER as MODELS
from transformer.models import find_model, load_model, shipped
from transformer.models.export import export as export_model
from transformer.recipes import RECIPES, Recipe
from transformer.training.distributed import is_main_process
from transformer.training.loop import train as train_model
from transformer.training.run_folder import RECIPE, read_metrics
from transformer.translator import Translation, Translator, search_errors_as_user_errors

Compile = Literal["auto", "yes", "no"]
Over = Literal["step", "minutes", "target_tokens"]

app = tyro.extras.SubcommandApp()


@dataclasses.dataclass
class Common:
    """What prepare, data and train share."""

    recipe: Annotated[Recipe, arg(name="")]
    mirror: str | None = None
    """A folder or address that holds the corpus's files, instead of their public home."""

    def prepare(self) -> PreparedData:
        """The recipe's prepared data, made if it is not there yet."""
        return prepare_data(self.recipe.data, self.recipe.model.vocab_size, self.mirror, progress=is_main_process())


@dataclasses.dataclass
class Prepare(Common):
    """One recipe's preparation."""


@dataclasses.dataclass
class Data(Common):
    """One recipe's data, to look at."""

    samples: int = 3
    """Show so many pairs with their pieces."""
    seed: int = 0
    """Chooses the pairs."""
    picture: Path | None = None
    """A .png, .svg or .pdf file to save a picture of the lengths to as well."""


@dataclasses.dataclass
class Train(Common):
    """One recipe's training."""

    run: Path = Path("runs")
    """The run folder to make."""
    device: DeviceName = "auto"
    """Where to run: auto takes the fastest there is."""
    precision: Precision = "auto"
    """In what numbers: auto takes the fastest that trains safely on the device."""
    compile: Compile = "auto"
    """Compile the model: a minute or two at first, then quicker steps; auto does so on a GPU."""
    force: bool = False
    """Go on with a run although the settings are others than those it was begun with."""
    tensorboard: bool = False
    """Write the metrics for TensorBoard too."""


def _for_each_recipe(command: type[Common]) -> Any:
    """A subcommand for each recipe, with the recipe's settings as defaults."""
    choices = []
    for name, recipe in RECIPES.items():
        default = Train(recipe, run=Path("runs", name)) if command is Train else command(recipe)
        choices.append(Annotated[command, subcommand(name, default=default, description=recipe.description)])
    return Annotated[Union[tuple(choices)], arg(name="")]  # noqa: UP007


@app.command
def prepare(settings: _for_each_recipe(Prepare)) -> None:  # type: ignore[valid-type]
    """Fetch a corpus, verify and clean it, learn its subwords and store its tokens.

    For example:

        transformer prepare pocket
        transformer prepare multi30k --mirror ~/downloads/multi30k
        transformer prepare multi30k --data.cleaning.max-ratio 2 --data.cleaning.drop-duplicates
    """
    data = settings.prepare()
    if data.cleaning.kept < data.cleaning.seen:
        print(data.cleaning.table())
    print(f"prepared in {data.folder}")


@app.command(name="data")
def look(settings: _for_each_recipe(Data)) -> None:  # type: ignore[valid-type]
    """Look at a recipe's data before you train on it; it is prepared, if it is not yet.

    For example:

        transformer data pocket
        transformer data multi30k --mirror ~/downloads/multi30k --samples 10
        transformer data multi30k --picture lengths.png
    """
    if settings.picture:
        from transformer.plots import style
        from transformer.plots.sentence_lengths import sentence_lengths

        style.check_figure_path(settings.picture)  # now, because preparing may take long
    prepared, recipe = settings.prepare(), settings.recipe
    for text in corpus_statistics(prepared, recipe.data, recipe.training.batch_tokens, settings.samples, settings.seed):
        print(text, end="\n\n", flush=True)
    if settings.picture:
        sources, targets = prepared.tokens("train")
        languages, max_ratio = recipe.data.direction.split("-"), recipe.data.cleaning.max_ratio
        style.save(sentence_lengths(sources.lengths(), targets.lengths(), languages, max_ratio), settings.picture)
        print(f"the picture is in {settings.picture}")


@app.command
def train(settings: _for_each_recipe(Train)) -> None:  # type: ignore[valid-type]
    """Train a recipe's model and keep it in a run folder; any setting can be changed.

    The same command again goes on where a run was broken off. On several GPUs, begin it as in the last example.

    For example:

        transformer train pocket
        transformer train pocket --run runs/wide --model.d-model 256
        transformer train multi30k --mirror ~/downloads/multi30k --training.steps 2000
        torchrun --nproc-per-node 8 -m -- transformer.cli train wmt14-base
    """
    device = choose_device(settings.device, settings.precision)
    data = settings.prepare()
    say(f"training on {device}")
    recipe = settings.recipe
    train_model(
        settings.run,
        data,
        recipe.model,
        recipe.training,
        device,
        dataclasses.asdict(recipe),
        compiled=compiles(settings.compile, device),
        force=settings.force,
        tensorboard=settings.tensorboard,
    )
    if is_main_process():
        print(f"the model is in {settings.run}; next: transformer evaluate {settings.run}")


@app.command
def average(run: Positional[Path], checkpoints: Positional[tuple[str, ...]] = (), last: int = 5) -> None:
    """Average checkpoints of a run (§6.1): the model that evaluate and translate use from then on.

    For example:

        transformer average runs/wmt14-base
        transformer average runs/wmt14-big --last 20
        transformer average runs/wmt14-base step-0090000 step-0100000

    Args:
        run: A run folder, as `transformer train` leaves it.
        checkpoints: Names of checkpoints; without any, the last ones.
        last: How many of the last.
    """
    if last < 1:
        raise UserError(f"last must be at least 1; got {last}")
    there = [path.stem for path in _run_folder(run).glob("*.json")]
    for name in checkpoints:
        if name not in there:
            raise UserError(f"{run} has no checkpoint {name}; it has {', '.join(step_checkpoints(run)) or 'none'}")
    names = average_checkpoints(run, checkpoints or step_checkpoints(run)[-last:])
    print(f"averaged {', '.join(names)}")
    if not checkpoints and len(names) < last:
        say(f"there were no more than {len(names)} of {last}: --training.keep-checkpoints says how many a run keeps")


@app.command
def curves(runs: Positional[tuple[Path, ...]], output: Path = Path("curves.svg"), over: Over = "step") -> None:
    """Draw the losses and BLEU of runs side by side.

    For example:

        transformer curves runs/pocket
        transformer curves runs/pocket runs/wide --over minutes --output wide.png

    Args:
        runs: Run folders, at most four.
        output: The picture, .svg, .png or .pdf.
        over: What goes to the right.
    """
    from transformer.plots import style
    from transformer.plots.training_curves import compare_runs

    if not 1 <= len(runs) <= 4:
        raise UserError(f"name one to four run folders; got {len(runs)}")
    rows = {str(run): read_metrics(_run_folder(run)) for run in runs}
    for run, found in rows.items():
        if not found or not all(isinstance(row, dict) and {"step", "valid_loss"} <= row.keys() for row in found):
            raise UserError(f"there are no metrics in {run}: is that a run folder?")
        if not any(math.isfinite(row["valid_loss"]) for row in found):
            raise UserError(f"{run} has nothing to draw: no validation loss is a finite number")
    style.save(compare_runs(rows, over), output)
    print(f"the picture is in {output}")


@app.command
def evaluate(
    models: Positional[tuple[str, ...]],
    split: str = "test",
    source: Path | None = None,
    reference: Path | None = None,
    beam: int = 4,
    alpha: float = 0.6,
    mirror: str | None = None,
    device: DeviceName = "auto",
) -> None:
    """Translate a test set and print its scores, each with the signature that says how it was computed.

    The translations, the references and the scores are kept in the run folder: SPLIT.hypotheses.txt,
    SPLIT.references.txt and SPLIT.scores.json; a model's of the course in evaluations/MODEL. Several are compared with
    the first. For example:

        transformer evaluate runs/pocket
        transformer evaluate pocket-small
        transformer evaluate runs/multi30k --beam 1 --split test_2018
        transformer evaluate runs/pocket runs/wide
        transformer evaluate runs/multi30k --source captions.en --reference captions.de

    Args:
        models: Run folders, as `transformer train` leaves them, or models that come with the course.
        split: Another split of the corpus than its test set.
        source: A test set of your own, plain or gzipped, a sentence a line; SPLIT is then its name.
        reference: What its translations should be, line by line.
        beam: Hypotheses kept while searching.
        alpha: Strength of the length penalty.
        mirror: As in prepare, if the corpus is not on this machine yet.
        device: Where to run.
    """
    if (source is None) != (reference is None):
        raise UserError("name both --source and --reference, or neither")
    if source is not None and split != "test":
        raise UserError("a test set is either a --split of the corpus or your own --source and --reference")
    files = None if source is None or reference is None else (source, reference)
    runs = [find_model(model) for model in models]
    kept = [Path("evaluations", run.name) if run.parent == MODELS else run for run in runs]
    for text in assess(runs, choose_device(device), split, files, beam, alpha, mirror, kept):
        print(text, flush=True)


@app.command
def translate(
    model: Positional[str],
    text: Positional[tuple[str, ...]] = (),
    beam: int = 4,
    alpha: float = 0.6,
    n_best: int = 1,
    device: DeviceName = "auto",
) -> None:
    """Translate sentences: those given, or the lines of standard input, where an empty line stays one.

    For example:

        transformer translate multi30k "A dog runs across the field."
        transformer translate runs/pocket "The old woman does not open the kitchen window." --n-best 4
        transformer translate multi30k-de-en < bildunterschriften.txt

    Args:
        model: A run folder, or a model of the course: multi30k, multi30k-de-en, pocket-small or pocket-large.
        text: Sentences; without any, lines are read from standard input.
        beam: Hypotheses kept while searching.
        alpha: Strength of the length penalty.
        n_best: Show this many hypotheses of each sentence, with their scores.
        device: Where to run.
    """
    translator = load_model(model, device)
    lines = list(text) or _lines()
    full = [i for i, line in enumerate(lines) if text or line.strip()]
    for i in full:
        try:
            translator.encode(lines[i])
        except UserError as error:
            raise UserError(f"line {i + 1}: {error}" if len(lines) > 1 else str(error)) from None
    found = dict(zip(full, _search(translator, [lines[i] for i in full], beam, alpha, n_best), strict=True))
    for i in range(len(lines)):
        for t in found.get(i, []):
            print(t.text if n_best == 1 else f"{t.hypothesis.score:8.3f}  {t.text}")
        if i not in found:
            print()


@app.command
def attention(
    model: Positional[str],
    text: Positional[tuple[str, ...]],
    output: Annotated[Path, arg(aliases=["--out"])] = Path("attention.html"),
    device: DeviceName = "auto",
) -> None:
    """Make a page to look into a model: the search and every head, for these sentences and whatever you type there.

    The page is one file with the model in it. A browser opens it without a server and without the network, so it can
    be kept and given away. For example:

        transformer attention multi30k "A dog runs across the field."
        transformer attention runs/pocket "Why does the dog not sleep?" --output pocket.html

    Args:
        model: A run folder, or a model of the course: multi30k, multi30k-de-en, pocket-small or pocket-large.
        text: Sentences to begin with.
        output: The page, .html.
        device: Where to translate them.
    """
    from transformer.interactive import translator_page

    if output.suffix != ".html":
        raise UserError(f"the name of a page ends in .html; got {str(output)!r}")
    if not output.parent.is_dir():
        raise UserError(f"there is no folder {output.parent} to save {output.name} in: make it first")
    folder = find_model(model)
    recipe = read_json(folder / RECIPE) if (folder / RECIPE).exists() else {}
    languages = recipe.get("data", {}).get("direction", "-").split("-")
    data = translator_page(load_model(model, device), folder.resolve().name, text, languages).encode()
    try:
        write_atomically(output, data)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}") from error
    print(f"the page is in {output}, {len(data) / 1e6:.1f} MB: open it in a browser")


@app.command
def export(
    run: Positional[Path],
    folder: Positional[Path],
    splits: tuple[str, ...] = (),
    mirror: str | None = None,
    device: DeviceName = "auto",
) -> None:
    """Make a run small enough to give away: its best weights in half precision, its scores, and a card.

    The folder is all that `transformer translate` and `transformer.load` need. For example:

        transformer export runs/pocket my-translator
        transformer export runs/multi30k captions --splits test test_2018

    Args:
        run: A run folder, as `transformer train` leaves it.
        folder: The folder to make. Its name is the model's.
        splits: Test sets of the run's corpus to score the model on; without any, all that can be had.
        mirror: As in prepare, if the corpus is not on this machine yet.
        device: Where to translate the test sets.
    """
    for text in export_model(_run_folder(run), Path(os.path.abspath(folder)), choose_device(device), splits, mirror):
        print(text, flush=True)
    print(f"the model is in {folder}, with its card")


@app.command
def parameters(model: Positional[str] = "base") -> None:
    """Count the parameters of a model, part by part.

    For example:

        transformer parameters base
        transformer parameters pocket

    Args:
        model: small, base or big (the paper's last two, with 37,000 tokens), or a recipe.
    """
    configs = {**PRESETS, **{name: recipe.model for name, recipe in RECIPES.items()}}
    _check_name(model, configs, "model")
    with torch.device("meta"):  # shapes without memory
        print(parameter_table(Transformer(configs[model])))


@app.command
def bench(
    names: Positional[tuple[str, ...]] = (),
    device: DeviceName = "auto",
    precision: Precision = "auto",
    threads: int | None = None,
    rounds: int | None = None,
    steps: int | None = None,
    compile: Compile = "auto",
    rival: bool = True,
    quick: bool = False,
    output: Path | None = None,
) -> None:
    """Measure speed and memory, in minutes: in contests against others that do the same, or how fast recipes train.

    For example:

        transformer bench
        transformer bench train loss --threads 1 --output bench.json
        transformer bench wmt14-base
        transformer bench wmt14-base wmt14-big --precision bf16 --compile yes
        transformer bench --quick

    Args:
        names: Contests (train, loss, beam, growth, greedy, processes), or recipes; without any, all contests.
        device: Where to run.
        precision: In what numbers.
        threads: CPU threads for everybody; without it, as many as PyTorch takes by itself.
        rounds: Contests: how often each contender is timed; 5 without it.
        steps: Recipes: how many steps are measured, after a few to warm up; 20 without it, or 3 with --quick.
        compile: Recipes: compile the model, as in train.
        rival: Recipes: measure torch.nn.Transformer too, in turn with ours.
        quick: Everything small: shows that it works, not how fast anything is.
        output: A JSON file to write the results to as well.
    """
    from transformer.bench.contests import CONTESTS, Setting
    from transformer.bench.recipe import bench_recipes
    from transformer.bench.report import bench as run_contests

    for name in names:
        _check_name(name, [*CONTESTS, *RECIPES], "contest or recipe")
    recipes = {name: RECIPES[name] for name in names if name in RECIPES}
    if recipes and len(recipes) < len(set(names)):
        raise UserError("contests and recipes are measured apart: name either contests or recipes")
    if recipes and rounds is not None:
        raise UserError("--rounds is for contests; for recipes say --steps")
    if not recipes and (steps is not None or compile != "auto" or not rival):
        raise UserError("--steps, --compile and --no-rival are for recipes; for contests there is --rounds")
    chosen = choose_device(device, precision)
    setting = Setting(chosen, torch.get_num_threads() if threads is None else threads, quick)
    if recipes:
        steps = (3 if quick else 20) if steps is None else steps
        told = bench_recipes(recipes, setting, steps, compiles(compile, chosen), rival, output)
    else:
        told = run_contests(names or tuple(CONTESTS), setting, 5 if rounds is None else rounds, output)
    for text in told:
        print(text, end="\n\n", flush=True)


def compiles(wanted: Compile, device: Device) -> bool:
    """Whether the model is to be compiled."""
    return wanted == "yes" or wanted == "auto" and device.device.type == "cuda"


def say(line: str) -> None:
    """What is going on goes to stderr, so that stdout holds results only."""
    if is_main_process():
        print(line, file=sys.stderr, flush=True)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command; a user's mistake ends in one line on stderr and exit code 2."""
    args = list(sys.argv[1:] if args is None else args)
    try:
        if args[:1] in (["prepare"], ["data"], ["train"]) and args[1:] and not args[1].startswith("-"):
            _check_name(args[1], RECIPES, "recipe")
        app.cli(prog="transformer", args=args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read along, head or less, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
        sys.exit(141)


def _search(
    translator: Translator, sentences: Sequence[str], beam: int, alpha: float, n_best: int
) -> list[list[Translation]]:
    with search_errors_as_user_errors():
        return translator.beam_search(sentences, beam, alpha, n_best)


def _lines() -> list[str]:
    """The lines of standard input."""
    if sys.stdin is None:
        raise UserError("there is no standard input: name a sentence")
    return sys.stdin.read().removesuffix("\n").split("\n")


def _run_folder(run: Path) -> Path:
    """A folder of one's own; what comes with the course is finished."""
    if run.is_dir():
        return run
    if str(run) in shipped():
        raise UserError(f"{run} comes with the course and is no run of yours: its files are in {find_model(run)}")
    raise UserError(f"there is no run folder {run}; `transformer train` makes one")


def _check_name(name: str, known: Iterable[str], what: str) -> None:
    if name not in (names := list(known)):
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise UserError(f"there is no {what} {name!r}; {hint}")


if __name__ == "__main__":
    main()
