"""The command ``transformer``: it starts quickly, and imports PyTorch only for a command that needs it."""

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from transformer import __version__
from transformer.command_line import guard, overview, run_command, wrap

DESCRIPTION = "Train, evaluate and use the Transformer of “Attention Is All You Need”."

SUMMARIES = {
    "prepare": "Download and clean a corpus, train a subword tokenizer on it, and save it as token ids.",
    "data": "Show statistics and samples of a recipe's data; the data is prepared first if necessary.",
    "train": "Train the model of a recipe; every setting of the recipe can be changed.",
    "average": "Average checkpoints of a run (§6.1 of the paper); evaluate and translate then use the average.",
    "curves": "Plot the loss and BLEU of up to four runs against training steps, time or tokens.",
    "evaluate": "Translate a test set and compute BLEU, chrF2 and METEOR, each with its signature.",
    "translate": "Translate sentences, or the lines of standard input, by beam search.",
    "attention": "Save an interactive page that shows the beam search and the attention of every head of a model.",
    "export": "Export a trained model for others: weights in half precision, tokenizer, scores and a model card.",
    "parameters": "Count the parameters of an architecture, by component.",
    "bench": "Compare speed and memory with other implementations, and measure how fast recipes train.",
}
"""The commands, each with the first line of its docstring; importing them all for the help would take seconds."""

PARENT_CHECK_SECONDS = 1.0
"""How often a process that ``torchrun`` has started checks whether ``torchrun`` is still alive."""
STOP_SECONDS = 5.0
"""How long such a process may take to save and stop once ``torchrun`` is dead."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command ``transformer``; see `guard` for the exit codes."""
    if args is None:
        args = sys.argv[1:]
        exit_on_signals()
        if "TORCHELASTIC_RUN_ID" in os.environ:  # set by torchrun
            stop_with_parent()
    code = guard(lambda: _run(args))
    if code and code != 130 and "TORCHELASTIC_RUN_ID" in os.environ:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)  # the usual exit would wait for the other processes, because NCCL does
    if code:
        sys.exit(code)


def _run(args: Sequence[str]) -> int:
    if not args or args[0] in ("-h", "--help", "help"):
        print(overview("transformer", DESCRIPTION, SUMMARIES))
        print(wrap("`transformer --version` prints the versions and the machine, for bug reports."))
        return 0 if args else 2
    if args[0] == "--version":
        print(_version())
        return 0
    with quiet_interrupts():
        from transformer.commands import COMMANDS
    code = run_command("transformer", DESCRIPTION, COMMANDS, args)
    if not code and args[0] == "prepare" and not {"-h", "--help"} & set(args):
        print(f"next: {shlex.join(['transformer', 'train', *args[1:]])}", file=sys.stderr)
    return code


def _version() -> str:
    """Return the version of the course, the commit, the versions of Python and PyTorch, the machine and the GPUs."""
    with quiet_interrupts():
        from transformer.provenance import provenance
    about = provenance("")
    if about["commit"].startswith("version "):  # this is not a clone of the repository
        del about["commit"]
    lines = [f"{name}: {about[name]}" for name in ("commit", "versions", "machine", "gpu") if name in about]
    return "\n".join([f"transformer-course {__version__}", *lines])


def exit_on_signals() -> None:
    """End this process with an exception on SIGTERM or SIGHUP, so that temporary files are removed."""
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, _exit)


def _exit(number: int, _: object) -> None:
    sys.exit(128 + number)


def stop_with_parent() -> None:
    """Stop this process if the one that started it, such as ``torchrun``, dies without stopping it.

    The process gets SIGTERM, as from ``torchrun``, so that it saves a checkpoint; if that takes too long, it exits.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def quiet_interrupts() -> Iterator[None]:
    """End the process at once on Ctrl-C, SIGTERM or SIGHUP while modules are imported.

    An exception in the middle of an import can leave a library broken, or be swallowed.

    The exit code is 128 + the number of the signal, as is usual in a shell.
    """
    numbers = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
    before = {number: signal.getsignal(number) for number in numbers}
    raising = {number: handler for number, handler in before.items() if handler in (signal.default_int_handler, _exit)}
    try:
        for number in raising:
            signal.signal(number, lambda number, _: os._exit(128 + number))
    except ValueError:  # signal handlers can be installed only in the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in raising.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    main()
