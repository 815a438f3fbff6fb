"""What a check tells a learner whose mistake has no name: the messages that don't depend on the exercise.

The first line says what is wrong, the next ones what may be the cause.
"""

import inspect
import re
import traceback
from collections.abc import Sequence

from exercises.calls import CallResult, Function
from exercises.relations import Finding
from exercises.tensors import equal_gradients, tables_side_by_side

TAMPERED = (
    "the check can no longer tell right answers from wrong ones\n"
    "Something it depends on has been replaced: a function of PyTorch, of Python, or of the check itself. Restart the "
    "kernel and run the notebook without that change."
)

STALE = (
    "it returns the result of an earlier call\n"
    "The inputs had the same shapes then, but different contents. Does your code keep results in a cache or a global "
    "variable?"
)

NOT_REPEATABLE = (
    "it gives a different result when it is called again\n"
    "For the same inputs, the first call gave the right result. Something is left over from earlier calls: look for "
    "global variables and for default arguments that your code changes."
)

RANDOM = Finding(
    "another result each time",
    "Your code draws random numbers, or makes a new layer, such as `nn.Linear`, whose weights are random at first. "
    "Nothing may be random here: compute the result from the arguments alone.",
)

TRACKED_INPUT = (
    "it changes its input `{name}`\n"
    "Your result is right, but you have switched on gradients for the tensor that was passed to you. From now on "
    "PyTorch records what the rest of the program computes from it. Make a tensor of your own: `detach` returns one "
    "that shares its numbers."
)

NO_GRADIENT = (
    "Your result is right, but a model with this code could not learn through it. Something cuts the gradient off: "
    "look for `torch.no_grad()`, `detach()`, `.data`, `.item()`, `float()`, `tolist()`, `numpy()`, `torch.tensor(…)`, "
    "`nn.Parameter(…)` and `from_pretrained(…)`, and compute with the tensors themselves."
)

WRONG_GRADIENT = (
    "Your result is right, but part of your code is treated as a constant, so a model would be trained with a wrong "
    "gradient. Look for `torch.no_grad()`, `detach()`, `.data`, `.item()` and, in an embedding, `padding_idx`."
)

NAN_GRADIENT = (
    "Your result is right, but training would fail at the first step. Look for a root, a logarithm or a division of "
    "numbers that can be 0, or for infinities that you replace afterwards: replace them first."
)

CONSTANT = (
    "a result without a gradient\n"
    "Your result is right, but here it is a constant, and `backward` stops with an error if a loss doesn't depend on "
    "the model. Compute it from the inputs in every case, even if it is 0."
)

NO_BACKWARD = (
    "Your result is right, but PyTorch can't compute its gradient. Use tensor operations only, and make new tensors "
    "rather than change those that earlier results depend on."
)


def without_paths(text: str) -> str:
    """Return a text without the paths in PyTorch's warnings: of a temporary file, and of where PyTorch was built."""
    text = re.sub(r"^\S+:\d+: (?=\w*Warning: )", "", text, flags=re.MULTILINE)
    return re.sub(r" *\(Triggered internally at [^()]*\)", "", text)


def describe_error(answer: Function, error: BaseException) -> str:
    """Return a line with the exception and, if it comes from the learner's own code, the line of that code."""
    message = [line for line in without_paths(str(error)).splitlines() if line.strip()]
    text = "\n".join([f"it stopped with {type(error).__name__}: {''.join(message[:1])}", *message[1:3]])
    function = inspect.unwrap(vars(answer).get("__init__", answer) if isinstance(answer, type) else answer)
    file = function.__code__.co_filename if hasattr(function, "__code__") else None
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if frames:
        line = f": {frames[-1].line}" if frames[-1].line else ""  # a cell magic such as %%time hides it
        text += f"\nin line {frames[-1].lineno} of its cell{line}"
    return text


def _listed(names: Sequence[str]) -> str:
    """Return the names as code: `a`, `b` and `c`."""
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}" if first else last


def describe_unused(names: Sequence[str], is_certain: bool) -> Finding:
    """Describe arguments that make no difference; it is certain that they are unused if the code never reads them."""
    listed, verb = _listed(names), "is" if len(names) == 1 else "are"
    uses = f"doesn't use {listed}" if len(names) == 1 else f"uses none of {listed}"
    uses = f"uses neither {listed.replace(' and ', ' nor ')}" if len(names) == 2 else uses
    start = f"Your code {uses}" if is_certain else f"Your result stays the same whatever {listed} {verb}"
    return Finding(
        "an argument isn't used",
        f"{start}. Is a step missing, or is something else in its place, such as a fixed number?",
    )


def describe_without_effect(names: Sequence[str]) -> Finding:
    """Describe arguments that the code reads, but that make no difference."""
    listed = _listed(names)
    its, values, are, them = ("its", "value", "is", "it") if len(names) == 1 else ("their", "values", "are", "them")
    return Finding(
        "an argument makes no difference",
        f"Your code uses {listed}, but in the tests your result doesn't depend on {its} {values}. Do you use only "
        f"{its} shape or type? {are.capitalize()} {its} {values} used only after the result is complete? "
        f"Or does a later line overwrite what you computed from {them}?",
    )


def describe_special_case(special: str, n_right: int, n_tests: int, is_alone: bool) -> Finding:
    """Describe the special case in which a result is wrong; ``is_alone`` if nothing else is known about the mistake."""
    text = f"Your result is right in {n_right} of {n_tests} tests. It is wrong only where {special}."
    return Finding("right, except in a special case", text + (" What should happen then?" if is_alone else ""))


def describe_changed_input(name: str, is_meant_to_change: bool, is_function: bool) -> str:
    """Describe an input that isn't what it should be after the call; it may be meant to change, but to other values."""
    if is_meant_to_change:
        return (
            f"`{name}` is not what it should be after the call\n"
            "The result is right, but the call should leave other values behind. Is a step missing at the end, or is "
            "there one too many?"
        )
    if is_function:
        return (
            f"it changes a list that `{name}` keeps\n"
            f"Your result is right, but `{name}(…)` returns its own list, not a copy, and your code changes it. Make a "
            "new list: write `x = x + y` rather than `x += y`."
        )
    return (
        f"it changes its input `{name}`\n"
        f"Your result is right, but after the call `{name}` is no longer what it was, and the rest of the program may "
        "still need it. Make something new instead: write `x = x + y` rather than `x += y`, don't assign to parts of "
        "an input, and don't call methods that change it, such as `append`, `pop` or those whose names end in `_`."
    )


def describe_gradients(answer: Function, actual: CallResult, expected: CallResult) -> str | None:
    """Return a message if gradients are missing or wrong."""
    if actual.error:
        return f"no gradient can be computed\n{NO_BACKWARD}\n{describe_error(answer, actual.error)}"
    scale = max(float(gradient.abs().max()) for gradient in expected.gradients.values() if gradient.numel())
    wrong = [
        name
        for name, gradient in expected.gradients.items()
        if not equal_gradients(actual.gradients[name], gradient, scale)
    ]
    if not wrong:
        return None
    if missing := [name for name in wrong if not actual.gradients[name].any()]:
        names = ", ".join(f"`{name}`" for name in missing[:3]) + (" and others" if len(missing) > 3 else "")
        return f"no gradient flows back to {names}\n{NO_GRADIENT}"
    name = wrong[0]
    yours, right = actual.gradients[name], expected.gradients[name]
    if yours.isnan().any() and not right.isnan().any():
        return f"the gradient of `{name}` contains NaN\n{NAN_GRADIENT}"
    return "\n".join([f"the gradient of `{name}` is wrong", WRONG_GRADIENT, *tables_side_by_side(yours, right)])
