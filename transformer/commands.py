"""What the command ``transformer`` can do: prepare data, train, evaluate, translate and look inside a model.

`transformer.cli` runs these commands.
"""

import dataclasses
import io
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TextIO

import torch
from tyro.conf import FlagCreatePairsOff, Positional, arg

from transformer.checkpoint import average_checkpoints, read_settings, step_checkpoints, step_name
from transformer.command_line import Command, RecipeCommand, check_name
from transformer.config import DROPOUTS, PRESETS, ModelConfig, TrainingConfig
from transformer.data.corpora import absolute_name, own_corpus_sha256
from transformer.data.prepare import DataConfig, PreparedData
from transformer.data.prepare import prepare as prepare_data
from transformer.data.sentences import split_sentences
from transformer.data.statistics import corpus_statistics, dropped_pairs, unused_pairs
from transformer.data.tokenizer import Tokenizer
from transformer.decoding import check_search
from transformer.device import Device, DeviceName, InferencePrecision, Precision, choose_device
from transformer.errors import UserError, quote, require_extra
from transformer.evaluation.evaluate import evaluate_runs
from transformer.files import InvalidFileError, check_writable, write_output
from transformer.inspection import parameter_table
from transformer.model import Transformer
from transformer.models import MODELS_FOLDER, find_model, list_models, load_model
from transformer.models.card import CARD
from transformer.models.export import export as export_model
from transformer.recipes import RECIPES
from transformer.training.distributed import get_world_size, is_main_process
from transformer.training.loop import explain_write_errors
from transformer.training.loop import train as train_model
from transformer.training.memory import check_memory
from transformer.training.run_folder import RECIPE, check_run_folder, read_metrics
from transformer.translator import Translator

MAX_LINE_LENGTH = 1_000_000
"""How many characters a line of standard input may have."""
LINES_AT_ONCE = 100
"""How many lines are translated together and then printed, if standard input is a file or a pipe."""

Compile = Literal["auto", "yes", "no"]
XAxis = Literal["step", "minutes", "target_tokens"]
Mirror = Annotated[
    str | None,
    arg(
        metavar="FOLDER|URL",
        help="Where to read the corpus files from, instead of downloading them from their public address.",
        help_behavior_hint="",
    ),
]
MaxNewTokens = Annotated[
    int | None,
    arg(
        metavar="INT",
        help="Maximum length of a translation in tokens.",
        help_behavior_hint="(default: the length of the source + 50)",
    ),
]
PRECISIONS = (
    "Precision of the matrix products: fp32; tf32 (NVIDIA GPUs since Ampere: faster than fp32, less exact); or bf16 or "
    "fp16, in mixed precision (autocast). auto: bf16 on a CUDA GPU, or fp16 if it lacks bf16; fp32 everywhere else."
)
PrecisionOption = Annotated[Precision, arg(help=PRECISIONS)]
InferencePrecisionOption = Annotated[
    InferencePrecision,
    arg(
        help=f"{PRECISIONS} int8, on a CPU: linear layers multiply 8-bit integers. Translations are nearly as good, "
        "and faster if the CPU has AVX512-VNNI instructions."
    ),
]
ModelName = Annotated[
    Positional[str],
    arg(metavar="MODEL", help=f"A run folder, or the name of a pretrained model: {', '.join(list_models())}."),
]


@dataclasses.dataclass
class RecipeOptions:
    """The options that prepare, data and train share."""

    data: DataConfig
    """The corpus and how it is prepared."""
    model: ModelConfig
    """The architecture of the model."""
    training: TrainingConfig
    """How the model is trained."""
    mirror: Mirror = None
    explicit_options: ClassVar[Sequence[str]] = ()
    """Names of the options that were given on the command line; all others have the recipe's values."""

    def __post_init__(self) -> None:
        self.data = dataclasses.replace(self.data, corpus=absolute_name(self.data.corpus))

    def prepare(self, tokenizer: Tokenizer | None = None) -> PreparedData:
        """Return the prepared data of the recipe; prepare it first if necessary, with a new or the given tokenizer."""
        return prepare_data(self.data, self.model.vocab_size, self.mirror, is_main_process(), tokenizer)


@dataclasses.dataclass
class PrepareOptions(RecipeOptions):
    """The options of `transformer prepare RECIPE`; the training options have no effect."""


@dataclasses.dataclass
class DataOptions(RecipeOptions):
    """The options of `transformer data RECIPE`."""

    samples: int = 3
    """Number of sentence pairs to show, split into subwords."""
    seed: int = 0
    """Seed for choosing these pairs."""
    figure: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Save a plot of the sentence lengths as .png, .svg or .pdf."""


@dataclasses.dataclass
class TrainOptions(RecipeOptions):
    """The options of `transformer train RECIPE`."""

    run: Annotated[Path, arg(metavar="FOLDER")] = Path("runs")
    """The run folder, where checkpoints, metrics and settings are saved, and from which an interrupted run resumes."""
    device: DeviceName = "auto"
    """Where to train; auto chooses the fastest device available."""
    precision: PrecisionOption = "auto"
    compile: Compile = "auto"
    """Compile the model, which takes a minute or two but makes steps faster. auto: only on a CUDA GPU."""
    force: FlagCreatePairsOff[bool] = False
    """Resume a run even if its settings have changed."""
    initial_model: Annotated[
        str | None,
        arg(
            metavar="MODEL",
            help="Start from the weights of this model, a run folder or the name of a pretrained model, instead of "
            "random ones (fine-tuning). Its architecture and tokenizer replace the recipe's, except for dropout.",
            help_behavior_hint="(default: random weights)",
        ),
    ] = None
    tensorboard: FlagCreatePairsOff[bool] = False
    """Also write the metrics for TensorBoard."""


def prepare(options: PrepareOptions) -> None:
    """Download and clean a corpus, train a subword tokenizer on it, and save it as token ids.

    The --training options are accepted, as in train, but have no effect here.

    Examples:
        transformer prepare pocket
        transformer prepare multi30k --mirror ~/downloads/multi30k
        transformer prepare multi30k --data.cleaning.max-ratio 2 --data.cleaning.drop-duplicates
    """
    data = options.prepare()
    if dropped := dropped_pairs(data, options.data):
        print(dropped)
    if unused := unused_pairs(data):
        print(f"unused: {unused}")
    print(f"prepared in {data.folder}")


def show_data(options: DataOptions) -> None:
    """Show statistics and samples of a recipe's data; the data is prepared first if necessary.

    Examples:
        transformer data pocket
        transformer data multi30k --mirror ~/downloads/multi30k --samples 10
        transformer data multi30k --figure lengths.png
    """
    if options.figure:
        from transformer.plots import style
        from transformer.plots.sentence_lengths import sentence_lengths

        style.check_figure_path(options.figure)  # before the data is prepared, which may take a while
    if options.samples < 0:
        raise UserError(f"--samples must not be negative; got {options.samples}")
    data = options.prepare()
    for text in corpus_statistics(data, options.data, options.training.batch_tokens, options.samples, options.seed):
        print(text, end="\n\n", flush=True)
    if options.figure:
        sources, targets = data.tokens("train")
        languages = options.data.languages
        figure = sentence_lengths(sources.lengths(), targets.lengths(), languages, options.data.cleaning.max_ratio)
        style.save(figure, options.figure)
        print(f"saved {options.figure}")


def train(options: TrainOptions) -> None:
    """Train the model of a recipe; every setting of the recipe can be changed.

    The same command resumes an interrupted run. The last example trains on eight GPUs; its `--` keeps torchrun
    from reading this command's options, such as --run, as its own. Several machines can train together if they share a
    file system that contains the prepared data and the run folder.

    Examples:
        transformer train pocket
        transformer train pocket --run runs/wide --model.d-model 256
        transformer train multi30k --mirror ~/downloads/multi30k --training.steps 2000
        transformer train multi30k --initial-model everyday --run runs/fine-tuned
        torchrun --nproc-per-node 8 -m -- transformer.cli train wmt14-base
    """
    device = choose_device(options.device, options.precision)
    initial = load_model(options.initial_model, "cpu") if options.initial_model else None
    if initial is not None:
        dropout = {name: getattr(options.model, name) for name in DROPOUTS}
        config = dataclasses.replace(initial.model.config, **dropout)
        for name, value in dataclasses.asdict(config).items():
            if f"model.{name}" in options.explicit_options and getattr(options.model, name) != value:
                raise UserError(
                    f"the architecture is that of the initial model {options.initial_model}, whose model.{name} is "
                    f"{value}: leave out model.{name} {getattr(options.model, name)}"
                )
        options.model = config
        _note_other_direction(str(options.initial_model), options.data.direction)
    settings: dict[str, Any]
    settings = {part: dataclasses.asdict(getattr(options, part)) for part in ("data", "model", "training")}
    settings["text_sha256"] = own_corpus_sha256(options.data.corpus)
    if initial is not None:
        settings["initial_model"] = {
            "name": options.initial_model,
            "sha256": initial.metadata["weights"]["sha256"],
        }
    if options.tensorboard:
        require_extra("tensorboard", "tensorboard")
    if is_main_process():  # checked again later, but preparing the data may take a while
        check_run_folder(options.run, settings, options.force)
        check_memory(options.model, options.training, device, get_world_size())
        with explain_write_errors(options.run):
            options.run.mkdir(parents=True, exist_ok=True)
    data = options.prepare(initial.tokenizer if initial else None)
    n_read, n_kept = data.cleaning.seen * options.data.segmentations, len(data.tokens("train")[0])
    if n_kept < n_read:
        log(f"{n_read - n_kept:,} of {n_read:,} training pairs were dropped; `transformer data` shows why")
    train_model(
        options.run,
        data,
        options.model,
        options.training,
        device,
        settings,
        compiled=should_compile(options.compile, device),
        force=options.force,
        tensorboard=options.tensorboard,
        initial_model=initial.model if initial else None,
    )
    if is_main_process():
        print(f"the model is in {options.run}")
        log(f"next: {shlex.join(['transformer', 'evaluate', str(options.run)])}")


def average(
    run: Annotated[Positional[Path], arg(metavar="RUN")],
    checkpoints: Annotated[
        Positional[tuple[str, ...]], arg(metavar="[CHECKPOINT ...]", help_behavior_hint="(default: the last ones)")
    ] = (),
    last: int = 5,
) -> None:
    """Average checkpoints of a run (§6.1 of the paper); evaluate and translate then use the average.

    Examples:
        transformer average runs/wmt14-base
        transformer average runs/wmt14-big --last 20
        transformer average runs/wmt14-base step-0090000 step-0100000

    Args:
        run: A run folder created by `transformer train`.
        checkpoints: Names of the checkpoints to average.
        last: How many of the last checkpoints to average if none are named.
    """
    if last < 2 and not checkpoints:
        raise UserError(f"--last must be at least 2; got {last}")
    saved = step_checkpoints(_existing_run_folder(run))
    if not (run / RECIPE).exists():
        raise UserError(f"{run} is not a run folder: it has no {RECIPE}")
    if not saved and (run / CARD).exists():
        raise UserError(
            f"{run} is an exported model, which has only one checkpoint: average the run that it was exported from"
        )
    for name in checkpoints:
        if not (run / f"{name}.json").exists():
            raise UserError(f"{run} has no checkpoint {name}; it has {', '.join(saved) or 'none'}")
    names = list(dict.fromkeys(checkpoints)) or saved[-last:]
    if len(names) < 2:
        more = "name another one" if checkpoints else "train with a smaller --training.checkpoint-every to save more"
        raise UserError(f"averaging needs at least two checkpoints; got {', '.join(names) or 'none'}: {more}")
    try:
        average_checkpoints(run, names)
    except OSError as error:
        raise UserError(f"cannot write the average to {run}: {error.strerror}") from error
    except InvalidFileError as error:
        if all((run / f"{name}.json").exists() for name in names):
            raise UserError(
                f"{error}; to leave it out, name the checkpoints to average: `transformer average {run} CHECKPOINT "
                "CHECKPOINT`"
            ) from error
        raise UserError(f"training has just deleted one of these checkpoints in {run}: run the command again") from None
    print(f"averaged {len(names)} checkpoints: {', '.join(names)}")
    if len(names) < last and not checkpoints:
        log(
            f"{run} has only these, fewer than {last}: --training.checkpoint-every sets how often checkpoints are "
            "saved, and --training.keep-checkpoints how many are kept"
        )
    training = read_settings(run / RECIPE).get("training", {})
    if (steps := training.get("average_steps")) and step_name(training.get("steps", 0)) in names:
        log(f"the last checkpoint was already an average, of the last {steps} steps (--training.average-steps)")
    log("evaluate and translate now use the averaged weights")
    log(f"next: {shlex.join(['transformer', 'evaluate', str(run)])}")


def curves(
    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN [RUN ...]", help_behavior_hint="")],
    output: Annotated[Path, arg(metavar="FILE")] = Path("curves.svg"),
    x_axis: XAxis = "step",
) -> None:
    """Plot the loss and BLEU of up to four runs against training steps, time or tokens.

    Examples:
        transformer curves runs/pocket
        transformer curves runs/pocket runs/wide --x-axis minutes --output wide.png

    Args:
        runs: One to four run folders.
        output: The figure to save: .svg, .png or .pdf.
        x_axis: What to plot on the x axis.
    """
    from transformer.plots import style
    from transformer.plots.training_curves import compare_runs

    if not 1 <= len(runs) <= 4:
        raise UserError(f"give one to four run folders; got {len(runs)}")
    style.check_figure_path(output)
    metrics = {str(run): read_metrics(_existing_run_folder(run)) for run in runs}
    for run, rows in metrics.items():
        if not rows:
            is_run = (Path(run) / RECIPE).exists()
            raise UserError(f"{run} has no metrics yet" if is_run else f"{run} is not a run folder: it has no metrics")
        if not any(math.isfinite(row["valid_loss"]) for row in rows):
            raise UserError(f"there is nothing to plot in {run}: its validation loss is never finite")
    style.save(compare_runs(metrics, x_axis), output)
    print(f"saved {output}")


def evaluate(
    models: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="MODEL [MODEL ...]",
            help=f"Run folders, or names of pretrained models: {', '.join(list_models())}.",
            help_behavior_hint="",
        ),
    ],
    split: Annotated[
        str | None, arg(metavar="NAME", help_behavior_hint="(default: test, or the name of the source file)")
    ] = None,
    source: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None,
    reference: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    max_new_tokens: MaxNewTokens = None,
    mirror: Mirror = None,
    device: DeviceName = "auto",
    precision: InferencePrecisionOption = "auto",
) -> None:
    """Translate a test set and compute BLEU, chrF2 and METEOR, each with its signature.

    The translations, the references and the scores are saved in the run folder, as NAME.hypotheses.txt,
    NAME.references.txt and NAME.scores.json, and replace earlier ones. For a pretrained model they go to
    evaluations/MODEL. If you give several models, each is compared with the first by a significance test.

    Unlike translate, this command doesn't split lines into sentences, and it truncates lines that are too long for the
    model, so that the scores cover all lines.

    Examples:
        transformer evaluate runs/pocket
        transformer evaluate pocket-small
        transformer evaluate runs/multi30k --beam-size 1 --split test_2018
        transformer evaluate runs/pocket runs/wide
        transformer evaluate runs/multi30k --source captions.en --reference captions.de --split my-captions

    Args:
        models: Run folders.
        split: The split of the corpus to translate; or, with --source, a name for your own test set.
        source: Your own test set: a text file, plain or gzipped, with one sentence per line; or TABLE.tsv:COLUMN.
        reference: The reference translations of --source, line by line.
        beam_size: Number of hypotheses kept at each step of beam search; 1 with --length-penalty 0 is greedy search.
        length_penalty: Exponent of the length normalisation (§6.1): larger values favour longer translations.
        device: Where to translate; auto chooses the fastest device available.
    """
    if (source is None) != (reference is None):
        raise UserError("pass both --source and --reference, or neither")
    for flag, path in (("--source", source), ("--reference", reference)):
        if path and path.is_dir():
            raise UserError(f"{flag} must be a text file; {path} is a folder")
    files = None if source is None or reference is None else (source, reference)
    runs = [find_model(model) for model in models]
    folders = [Path("evaluations", run.name) if run.parent == MODELS_FOLDER else run for run in runs]
    for text in evaluate_runs(
        runs,
        choose_device(device, precision),
        split=split,
        files=files,
        beam_size=beam_size,
        length_penalty=length_penalty,
        max_new_tokens=max_new_tokens,
        mirror=mirror,
        output_folders=folders,
        names=models,
    ):
        print(text, flush=True)


def translate(
    model: ModelName,
    text: Annotated[
        Positional[tuple[str, ...]],
        arg(metavar="[SENTENCE ...]", help_behavior_hint="(default: the lines of standard input)"),
    ] = (),
    beam_size: int = 4,
    length_penalty: float = 0.6,
    n_best: int = 1,
    max_new_tokens: MaxNewTokens = None,
    device: DeviceName = "auto",
    precision: InferencePrecisionOption = "auto",
) -> None:
    """Translate sentences, or the lines of standard input, by beam search.

    An argument or a line may contain several sentences, which are translated one by one. An empty input line gives an
    empty output line. A line or an argument that cannot be translated, because a sentence is too long, is reported and
    left empty (evaluate truncates it instead).

    With --n-best, an argument or a line is translated as a whole, and each line of the output has a score, a tab and a
    translation. The score is the log-probability divided by the length normalisation; an empty line has none. With
    several arguments or standard input, the number of the argument or line and a tab come before the score.

    Examples:
        transformer translate everyday "What time does the train leave?"
        transformer translate runs/pocket "The old woman does not open the kitchen window." --n-best 4
        transformer translate multi30k-de-en < bildunterschriften.txt > captions.txt

    Args:
        text: Sentences to translate.
        beam_size: Number of hypotheses kept at each step of beam search; 1 with --length-penalty 0 is greedy search.
        length_penalty: Exponent of the length normalisation (§6.1): larger values favour longer translations.
        n_best: Number of translations to print for each sentence, with their scores if more than one.
        device: Where to translate; auto chooses the fastest device available.
    """
    check_search(beam_size, length_penalty, n_best, max_new_tokens)
    translator = load_model(model, device, precision)

    def sentences_of(one: str) -> list[str]:
        if n_best == 1:
            return split_sentences(one)
        return [one] if one.strip() else []

    def print_translations(texts: Sequence[Sequence[str]], first: int) -> None:
        """Translate and print the sentences of some texts, which are numbered from ``first``."""
        results = iter(translator.beam_search(list(chain(*texts)), beam_size, length_penalty, n_best, max_new_tokens))
        for number, sentences in enumerate(texts, first):
            lists = [next(results) for _ in sentences]
            if n_best == 1:
                print(" ".join(best.text for (best,) in lists))
                continue
            if not sentences:
                print(f"{number}\t\t")
            prefix = "" if len(text) == 1 else f"{number}\t"
            for translation in chain(*lists):
                print(f"{prefix}{translation.hypothesis.score:.3f}\t{translation.text}")
        sys.stdout.flush()

    if len(text) == 1 and os.path.isfile(text[0]):
        log(
            f"note: {text[0]} is translated as a sentence; to translate the lines of the file, "
            f"use < {shlex.quote(text[0])}"
        )
    kind = "argument" if text else "line"
    chunks: Iterable[Sequence[str]] = [text] if text else _standard_input()
    first = refused = 0
    for chunk in chunks:
        texts = [sentences_of(one) for one in chunk]
        for i, sentences in enumerate(texts):
            # An empty line is translated as an empty line, but an empty argument is probably a mistake.
            reason = _refusal(translator, sentences or [""] if text else sentences)
            if reason and len(text) == 1:
                raise UserError(reason)
            if reason:
                log(f"{kind} {first + i + 1}: {reason}; it is left empty")
                texts[i] = []
                refused += 1
        print_translations(texts, first + 1)
        first += len(chunk)
    if refused:
        raise UserError(f"{refused} of {first} {kind}s could not be translated and are empty in the output")


def attention(
    model: ModelName,
    text: Annotated[Positional[tuple[str, ...]], arg(metavar="SENTENCE [SENTENCE ...]", help_behavior_hint="")],
    output: Annotated[Path, arg(metavar="FILE")] = Path("attention.html"),
    device: DeviceName = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Save an interactive page that shows the beam search and the attention of every head of a model.

    The page is one HTML file that contains the model. It needs neither a server nor a network, so you can send it to
    somebody else. It starts with the given sentences, and you can type others into it.

    Examples:
        transformer attention multi30k "A dog runs across the field."
        transformer attention runs/pocket "Why does the dog not sleep?" --output pocket.html

    Args:
        text: Sentences to start with.
        output: The .html file to save.
        device: Where to translate the sentences; auto chooses the fastest device available.
    """
    from transformer.interactive import translator_page

    if output.suffix != ".html":
        raise UserError(f"the file name of the page must end in .html; got {quote(str(output))}")
    check_writable(output)
    folder = find_model(model)
    languages = ("", "")
    if (path := folder / RECIPE).exists():
        languages = DataConfig.from_dict(read_settings(path).get("data", {}), f"{path}: data").languages
    html = translator_page(load_model(model, device, precision), folder.resolve().name, text, languages).encode(
        "utf-8", "replace"
    )
    write_output(output, html)
    print(f"saved {output} ({len(html) / 1e6:.1f} MB): open it in a browser")


def export(
    run: Annotated[Positional[Path], arg(metavar="RUN")],
    folder: Annotated[Positional[Path], arg(metavar="FOLDER")],
    splits: Annotated[
        tuple[str, ...], arg(metavar="SPLIT [SPLIT ...]", help_behavior_hint="(default: all test sets)")
    ] = (),
    mirror: Mirror = None,
    device: DeviceName = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Export a trained model for others: weights in half precision, tokenizer, scores and a model card.

    The folder contains everything needed to translate with the model. An earlier export in it is replaced, along with
    its evaluation results.

    Examples:
        transformer export runs/pocket my-translator
        transformer export runs/multi30k captions --splits test test_2018

    Args:
        run: A run folder created by `transformer train`.
        folder: The folder to create; its name becomes the name of the model.
        splits: Test sets of the run's corpus on which to score the model.
        device: Where to translate the test sets; auto chooses the fastest device available.
    """
    run, name, folder = _existing_run_folder(run), str(folder), Path(os.path.abspath(folder))
    for text in export_model(run, folder, choose_device(device, precision), splits, mirror):
        print(text, flush=True)
    print(f"exported to {folder}; the model card is {folder / CARD}")
    if name in list_models():
        log(f"note: `transformer translate {name}` uses the pretrained model of that name; for this one, use ./{name}")


def parameters(architecture: Annotated[Positional[str], arg(metavar="[PRESET|RECIPE]")] = "base") -> None:
    """Count the parameters of an architecture, by component.

    Examples:
        transformer parameters base
        transformer parameters pocket

    Args:
        architecture: A preset (small, or the paper's base or big with a vocabulary of 37,000) or a recipe.
    """
    configs = {**PRESETS, **{name: recipe.model for name, recipe in RECIPES.items()}}
    check_name(architecture, configs, "preset or recipe")
    with torch.device("meta"):  # shapes without memory
        print(parameter_table(Transformer(configs[architecture])))


def bench(
    names: Annotated[
        Positional[tuple[str, ...]], arg(metavar="[NAME ...]", help_behavior_hint="(default: all benchmarks)")
    ] = (),
    device: DeviceName = "auto",
    precision: PrecisionOption = "auto",
    threads: Annotated[
        int | None, arg(metavar="INT", help_behavior_hint="(default: PyTorch's number of threads)")
    ] = None,
    rounds: int = 5,
    compile: Compile = "auto",
    quick: FlagCreatePairsOff[bool] = False,
    output: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None,
) -> None:
    """Compare speed and memory with other implementations, and measure how fast recipes train.

    Benchmarks:
        train: training steps of a small model, compared with torch.nn.Transformer
        loss: the projection to the vocabulary and the loss, compared with two ways to write them in PyTorch
        beam: beam search, compared with a search without a cache, Hugging Face's Marian and CTranslate2
        beam-long: beam search for long translations, compared with CTranslate2
        beam-short: beam search for short translations, compared with CTranslate2
        greedy: greedy search, compared with Hugging Face's Marian and CTranslate2
        int8: beam search with 8-bit integers and in fp32, on the CPU, compared with CTranslate2

    Examples:
        transformer bench
        transformer bench train loss --threads 1 --output bench.json
        transformer bench wmt14-base
        transformer bench wmt14-base wmt14-big --precision bf16 --compile yes
        transformer bench --quick

    Args:
        names: Benchmarks, or recipes, whose training is compared with torch.nn.Transformer and with the device's peak.
        device: Where to run.
        threads: CPU threads of each implementation.
        rounds: Timed rounds of each implementation; in training, a round is five steps.
        compile: Compile the models that are trained, as in train.
        quick: Run a tiny version, only to check that everything works.
        output: A JSON file to write the measurements to.
    """
    from transformer.bench.benchmarks import BENCHMARKS, run_benchmarks
    from transformer.bench.runner import BenchmarkOptions

    for name in names:
        check_name(name, [*BENCHMARKS, *RECIPES], "benchmark or recipe")
    for flag, number in (("--rounds", rounds), ("--threads", threads)):
        if number is not None and number < 1:
            raise UserError(f"{flag} must be at least 1; got {number}")
    if threads is not None and threads > (cores := os.cpu_count() or 1):
        raise UserError(f"--threads must be at most {cores}, the number of cores; got {threads}")
    if output and output.suffix != ".json":
        raise UserError(f"--output must be a .json file; got {output}")
    chosen = choose_device(device, precision)
    compiled = should_compile(compile, chosen)
    options = BenchmarkOptions(chosen, threads or torch.get_num_threads(), compiled, quick)
    for text in run_benchmarks(names or tuple(BENCHMARKS), options, rounds, output):
        print(text, end="\n\n", flush=True)


def should_compile(choice: Compile, device: Device) -> bool:
    """Return whether to compile the model: auto compiles on a CUDA GPU only."""
    return choice == "yes" or choice == "auto" and device.type == "cuda"


def log(message: str) -> None:
    """Print a message to stderr, so that stdout contains results only; in a distributed run, one process prints."""
    if is_main_process():
        print(message, file=sys.stderr, flush=True)


def _recipe_command(function: Callable[[Any], None], options: type[RecipeOptions]) -> RecipeCommand:
    """Return a command that takes a recipe, whose settings are the defaults of the options."""
    defaults = {name: options(recipe.data, recipe.model, recipe.training) for name, recipe in RECIPES.items()}
    for name, default in defaults.items():
        if isinstance(default, TrainOptions):
            default.run = Path("runs", name)
    return RecipeCommand(function, defaults, {name: recipe.description for name, recipe in RECIPES.items()})


COMMANDS: Mapping[str, Command] = {
    "prepare": _recipe_command(prepare, PrepareOptions),
    "data": _recipe_command(show_data, DataOptions),
    "train": _recipe_command(train, TrainOptions),
    "average": average,
    "curves": curves,
    "evaluate": evaluate,
    "translate": translate,
    "attention": attention,
    "export": export,
    "parameters": parameters,
    "bench": bench,
}


def _note_other_direction(initial_model: str, direction: str) -> None:
    """Print a note if the initial model of a run was trained in another direction, such as the opposite one."""
    path = find_model(initial_model) / RECIPE
    trained = read_settings(path).get("data", {}).get("direction", direction) if path.exists() else direction
    if trained != direction:
        log(f"note: the initial model {initial_model} was trained on {trained}, and this run trains it on {direction}")


def _refusal(translator: Translator, sentences: Sequence[str]) -> str | None:
    """Return why a model cannot translate one of these sentences; None if it can translate all."""
    try:
        for sentence in sentences:
            translator.encode(sentence)
    except UserError as error:
        return str(error)
    return None


def _standard_input() -> Iterator[list[str]]:
    """Yield the lines of standard input: one by one from a terminal, otherwise `LINES_AT_ONCE` at a time."""
    if sys.stdin is None:
        raise UserError("nothing to translate: pass a sentence, or pipe text to standard input")
    if is_terminal := sys.stdin.isatty():
        log("type sentences, one per line, and end with Ctrl-D:")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # bytes that are not UTF-8 are rejected with their line
    chunk: list[str] = []
    try:
        for line in _lines_of(sys.stdin):
            chunk.append(line)
            if len(chunk) == (1 if is_terminal else LINES_AT_ONCE):
                yield chunk
                chunk = []
    except UserError:
        yield chunk  # the lines before the rejected one are translated
        raise
    yield chunk


def _lines_of(stream: TextIO) -> Iterator[str]:
    """Yield the lines of a stream; reject one that isn't UTF-8 or is too long to be text, as it might never end."""
    for number in count(1):
        line = stream.readline(MAX_LINE_LENGTH + 1)
        if len(line) > MAX_LINE_LENGTH:
            raise UserError(
                f"line {number} of standard input has more than {MAX_LINE_LENGTH:,} characters: is it text?"
            )
        if not line:
            return
        if re.search(r"[\0\ud800-\udfff]", line):  # NUL, as in UTF-16, or bytes that could not be decoded
            raise UserError(
                f"line {number} of standard input is not UTF-8 text, so translation stops before it: convert the "
                "input to UTF-8, or decompress it first"
            )
        yield line.removesuffix("\n").removeprefix("\ufeff")


def _existing_run_folder(run: Path) -> Path:
    """Check that a run folder exists, and return it; reject a pretrained model, whose files are not the user's."""
    if run.is_dir():
        return run
    if str(run) in list_models():
        raise UserError(f"{run} is a pretrained model, not a run folder; its files are in {find_model(str(run))}")
    raise UserError(f"there is no run folder {run}; `transformer train` creates one")
