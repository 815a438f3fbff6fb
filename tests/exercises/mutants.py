"""Small changes of the solutions, which the checks have to notice: ``python -m tests.exercises.mutants [NN] [--all]``.

A check that lets a changed solution through has an input too few, unless the change changes nothing: those are listed
in test_mutants.py, each with its reason.
"""

import argparse
import ast
import contextlib
import difflib
import gc
import importlib
import itertools
import random
import re
import signal
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from exercises.check import Exercise, Topic, TrainingExercise
from exercises.make import read_solution
from exercises.notebooks import answer_key, check_key, solution_sources, topic_of

SECONDS = 1
"""The CPU time that a mutant gets for all inputs together by default, so that no endless loop hangs the tests."""

SIGNS = {
    ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Div], ast.Div: [ast.Mult], ast.FloorDiv: [ast.Mod],
    ast.Mod: [ast.FloorDiv], ast.Pow: [ast.Mult], ast.BitAnd: [ast.BitOr], ast.And: [ast.Or], ast.Or: [ast.And],
    ast.Lt: [ast.LtE, ast.GtE], ast.LtE: [ast.Lt, ast.Gt], ast.Gt: [ast.GtE, ast.LtE], ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq],
}  # fmt: skip
PAIRS = [("min", "max"), ("amin", "amax"), ("argmin", "argmax"), ("sin", "cos"), ("sum", "mean"), ("tril", "triu")]
SYMMETRIC = ("transpose", "min", "max", "maximum")
MODULES = ("torch", "F", "math", "given")
NAMES = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}


@dataclass(frozen=True)
class Mutant:
    """A solution with one change."""

    blank: str
    operator: str
    change: str
    """The line that is new, or the one that is gone: with the blank's name this tells a mutant from all others."""
    source: str
    diff: str


def mutants(source: Path) -> dict[str, list[Mutant]]:
    """Blank → its mutants, always in the same order: each operator once before any comes again.

    A blank whose check trains a model is left out: it judges the model, and many a change is as good.
    """
    cells = {key: cell["source"] for cell in read_solution(source)["cells"] if (key := answer_key(cell))}
    trials = {name for name, exercise in _topic(source).exercises.items() if isinstance(exercise, TrainingExercise)}
    return {b: _taking_turns(_mutants(b, text), by="operator") for b, text in cells.items() if b not in trials}


def some(of: dict[str, list[Mutant]], count: int, without: Iterable[tuple[str, str]] = ()) -> list[Mutant]:
    """So many of a notebook's mutants, spread over its blanks."""
    wanted = [m for blank in of.values() for m in blank if (m.blank, m.change) not in set(without)]
    return _taking_turns(wanted, by="blank")[:count]


def survivors(source: Path, tried: Sequence[Mutant], seconds: float = SECONDS) -> list[Mutant]:
    """Return the mutants that the checks accept, each within so many seconds of CPU time."""
    given: dict[str, Any] = {}
    for cell in read_solution(source)["cells"]:
        skipped = answer_key(cell) or check_key(cell) or "nbval-skip" in cell["metadata"].get("tags", [])
        if cell["cell_type"] == "code" and not skipped:
            exec(cell["source"], given)
    exercises = _topic(source).exercises
    return [mutant for mutant in tried if _survives(mutant, exercises[mutant.blank], dict(given), seconds)]


def _topic(source: Path) -> Topic:
    topic: Topic = importlib.import_module(f"exercises.checks.{topic_of(source)}").topic
    return topic


def _survives(mutant: Mutant, exercise: Exercise, namespace: dict[str, Any], seconds: float) -> bool:
    try:
        with _limited(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(mutant.source, namespace)
            return exercise.is_right(namespace[mutant.blank])
    except (Exception, TimeoutReached):
        return False


class TimeoutReached(BaseException):
    """Not an Exception, so that a check does not take it for the answer's own."""


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutReached

    gc.disable()  # Hypothesis has a callback for the garbage collector, in which the exception would be lost
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        gc.enable()


def _mutants(blank: str, text: str) -> list[Mutant]:
    """All of one answer: every change at every place between the marks."""
    lines = [line.strip() for line in text.splitlines()]
    marked = range(*(1 + lines.index(f"### {mark} SOLUTION") for mark in ("BEGIN", "END")))
    tree = ast.parse(text)
    original = ast.unparse(tree)
    found: dict[str, Mutant] = {}
    for parent, field, place in _places(tree):
        siblings = getattr(parent, field)
        old = siblings if place is None else siblings[place]
        for operator, new in _changes(old) if getattr(old, "lineno", 0) in marked else ():
            setattr(parent, field, new if place is None else [*siblings[:place], new, *siblings[place + 1 :]])
            source = ast.unparse(tree)
            diff = list(difflib.unified_diff(original.splitlines(), source.splitlines(), lineterm="", n=0))[3:]
            change = " ".join(line[1:].strip() for line in diff if line[0] == "+")
            if isinstance(new, ast.Pass):
                change = f"without {ast.unparse(old)}".splitlines()[0]
            if source != original and source not in found:
                found[source] = Mutant(blank, operator, change, source, "\n".join(diff))
        setattr(parent, field, siblings)
    random.Random(blank).shuffle(order := list(found.values()))
    return order


def _places(parent: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Every place in a tree: a node, its field, where in it if that is a list; types and guards of zip are left out."""
    for field, value in ast.iter_fields(parent):
        is_guard = isinstance(parent, ast.keyword) and parent.arg == "strict"
        if field in ("annotation", "returns") or is_guard:
            continue
        for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield parent, field, place
                yield from _places(child)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The operators: what may stand in a node's place."""
    match node:
        case ast.BinOp(left, op, right):
            yield from (("sign", ast.BinOp(left, sign(), right)) for sign in SIGNS.get(type(op), []))
            yield from (("operand dropped", operand) for operand in (left, right))
            if not isinstance(op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
                yield "operands swapped", ast.BinOp(right, op, left)
        case ast.AugAssign(target, op, value):
            yield from (("sign", ast.AugAssign(target, sign(), value)) for sign in SIGNS.get(type(op), []))
        case ast.BoolOp(op, values):
            yield from (("sign", ast.BoolOp(sign(), values)) for sign in SIGNS[type(op)])
            yield from (("operand dropped", operand) for operand in values)
        case ast.Compare(left, [op], [right]):
            yield from (("comparison", ast.Compare(left, [sign()], [right])) for sign in SIGNS.get(type(op), []))
        case ast.UnaryOp(_, operand):
            yield "sign or not dropped", operand
        case ast.Constant(bool(value)):
            yield "True and False", ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield from (("number or axis", ast.Constant(value + step)) for step in (1, -1))
        case ast.IfExp(test, body, orelse):
            yield "branches swapped", ast.IfExp(test, orelse, body)
            yield from (("branch dropped", branch) for branch in (body, orelse))
        case ast.If(test, body, [_, *_] as orelse):
            yield "branches swapped", ast.If(test, orelse, body)
        case ast.Tuple([first, second, *rest], ast.Load()):
            yield "arguments swapped", ast.Tuple([second, first, *rest], ast.Load())
        case ast.Slice(lower, upper, step):
            if ast.unparse(node)[0] != "0":
                yield "bound dropped", ast.Slice(None, upper, step)
            yield "bound dropped", ast.Slice(lower, None, step)
        case ast.Subscript(value, _, ast.Load()):
            yield "index dropped", value
        case ast.Call(function, arguments, keywords):
            if isinstance(function, ast.Attribute) and ast.unparse(function.value) not in MODULES:
                yield "call dropped", function.value
            yield from (("call dropped", argument) for argument in arguments[:1])
            if ast.unparse(function).split(".")[-1] not in SYMMETRIC:
                for i in range(len(arguments) - 1):
                    swapped = [*arguments[:i], arguments[i + 1], arguments[i], *arguments[i + 2 :]]
                    yield "arguments swapped", ast.Call(function, swapped, keywords)
            for dropped in keywords:
                if dropped.arg != "strict":
                    yield "argument dropped", ast.Call(function, arguments, [k for k in keywords if k is not dropped])
        case ast.Name(str(name), context) if name in NAMES:
            yield "name", ast.Name(NAMES[name], context)
        case ast.Attribute(value, str(name), context) if name in NAMES:
            yield "name", ast.Attribute(value, NAMES[name], context)
    if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.Return):
        yield "statement dropped", ast.Pass()


def _taking_turns(all_of_them: Sequence[Mutant], by: str) -> list[Mutant]:
    """One of each group, then the second of each, and so on."""
    groups: dict[str, list[Mutant]] = {}
    for mutant in all_of_them:
        groups.setdefault(getattr(mutant, by), []).append(mutant)
    return [mutant for turn in itertools.zip_longest(*groups.values()) for mutant in turn if mutant]


def main() -> None:
    """Print the table, and every survivor."""
    from tests.exercises.test_mutants import EQUIVALENT

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*", metavar="NN", help="the numbers of some notebooks; without, all")
    parser.add_argument("--all", action="store_true", help="every mutant that can be made, not ten a notebook")
    options = parser.parse_args()
    columns = ("blanks", "wrong answers", "mutants", "killed", "explained", "left")
    print(f"{'notebook':24}" + "".join(f"{column:>15}" for column in columns))
    for source in solution_sources():
        if options.notebooks and not re.match("|".join(options.notebooks), source.stem):
            continue
        of = mutants(source)
        tried = some(of, 10**9 if options.all else 10)
        alive = survivors(source, tried)
        left = [mutant for mutant in alive if (mutant.blank, mutant.change) not in EQUIVALENT]
        named = sum(len(exercise.mistakes) for exercise in _topic(source).exercises.values())
        counts = len(of), named, len(tried), len(tried) - len(alive), len(alive) - len(left), len(left)
        print(f"{source.stem:24}" + "".join(f"{count:15}" for count in counts))
        for mutant in left:
            print(f"\n{mutant.blank}: {mutant.operator}\n{mutant.diff}\n")


if __name__ == "__main__":
    main()
