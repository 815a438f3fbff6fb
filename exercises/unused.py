"""Find arguments that an answer doesn't use: its result stays the same whatever they are."""

import dis
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from exercises.calls import CallResult, Inputs
from exercises.tensors import changed_tensors, is_tensor

Run = Callable[[Inputs], CallResult]

MAX_INPUTS = 4
"""At most this many inputs are varied."""

computing_time = getattr(time, "thread_time", time.process_time)  # Pyodide, which has one thread, has no clock for it
MAX_SECONDS = 2
"""If the search takes more computing time than this, in seconds, it reports nothing."""


def unused_arguments(reference: Run, answer: Run, inputs: Sequence[Inputs]) -> list[str]:
    """Return the names of the arguments that change the reference's results, but never the answer's.

    The list is empty if no argument changes the answer's results: then something else is wrong.
    """
    end = computing_time() + MAX_SECONDS
    is_unused: dict[str, bool | None] = {}
    for name in inputs[0] if inputs else ():
        is_unused[name] = _is_unused(name, reference, answer, inputs)
        if computing_time() > end:
            return []
    return [name for name, unused in is_unused.items() if unused] if False in is_unused.values() else []


def read_arguments(answer: object, names: Sequence[str]) -> list[str] | None:
    """Return which of its arguments an answer's code reads, whether it makes a difference or not.

    Args:
        answer: a function with these arguments, under any names.
        names: what the arguments are called in the notebook, in order.

    Returns:
        None if the answer has no code of its own, or not one parameter for each argument.
    """
    code = getattr(answer, "__code__", None)
    if not isinstance(code, CodeType) or code.co_argcount != len(names):
        return None
    loads = [instruction.argval for instruction in dis.get_instructions(code) if "LOAD" in instruction.opname]
    read = {name for value in loads for name in (value if isinstance(value, tuple) else (value,))} | {*code.co_cellvars}
    return [name for name, own in zip(names, code.co_varnames, strict=False) if own in read]


def global_names(code: object) -> list[str]:
    """Return the global names that a function's code reads, each once; attributes such as ``F.softmax`` don't count."""
    if not isinstance(code, CodeType):
        return []
    loads = ("LOAD_GLOBAL", "LOAD_NAME")
    return list(dict.fromkeys(i.argval for i in dis.get_instructions(code) if i.opname in loads))


def _is_unused(name: str, reference: Run, answer: Run, inputs: Sequence[Inputs]) -> bool | None:
    """Return whether the answer doesn't use an argument; None if it makes no difference to the reference either."""
    others = [case[name] for case in inputs if name in case]
    counts = 0
    for case in inputs[:MAX_INPUTS]:
        expected, actual = reference(case), answer(case)
        if expected.error or actual.error:
            continue
        for value in _variations(case[name], others):
            changed = {**case, name: value}
            other = reference(changed)
            if other.error or other.equals(expected):
                continue
            if not answer(changed).equals(actual):
                return False
            counts += 1
    return True if counts > 1 else None


def _variations(value: Any, others: Sequence[Any]) -> Iterator[Any]:
    """Yield other values of the same kind."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value + 2, *(v for v in others if v != value))
    elif isinstance(value, float):
        yield from (value * 0.7 + 0.01, value * 1.3, *(v for v in others if v != value))
    elif is_tensor(value):
        yield from changed_tensors(value)
    elif isinstance(value, list) and len(value) > 1:
        yield value[::-1]
        yield value[:-1]
        yield value[1:]
    elif isinstance(value, str | list | tuple | Mapping):
        yield from (v for v in others if type(v) is type(value) and v is not value)
