"""The race: the contenders of a contest round by round in turn, so that a slow minute hits them all.

Each runs in a process of its own and waits there for its turn: an engine's threads that stay awake for its next call
would slow all others.
"""

import statistics
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field

from tqdm import tqdm

from transformer.bench.apart import Apart
from transformer.bench.contests import Contest, Setting

NOT_INSTALLED = "not installed: pip install 'transformer-course[bench]'"


@dataclass
class Row:
    """What was measured of one contender."""

    name: str
    against: str
    """The contender that it is compared with."""
    speeds: list[float] = field(default_factory=list)
    """Each round's, in the contest's unit."""
    speed: float | None = None
    """The median round's."""
    speed_ratio: float | None = None
    """How many times as fast the other one is: the median over rounds."""
    peak_memory: int | None = None
    """Bytes."""
    memory_ratio: float | None = None
    """The share of its peak memory that the other one needs."""
    missing: str = ""
    """Why nothing was measured."""


def race(contest: Contest, setting: Setting, rounds: int, progress: bool = True) -> list[Row]:
    """Run a contest.

    Args:
        rounds: how often each contender is timed, after a round that is not.
        progress: show a bar.

    Returns:
        A row for each contender, in their order.
    """
    rows = [Row(c.name, c.against or contest.contenders[0].name) for c in contest.contenders]
    by_name = {row.name: row for row in rows}
    runs = rounds + 1 + contest.memory
    with tqdm(total=runs * len(rows), desc=contest.name, unit="run", dynamic_ncols=True, disable=not progress) as bar:
        with ExitStack() as open_ones:
            racers: dict[str, Apart] = {}
            for contender in contest.contenders:
                try:
                    racers[contender.name] = open_ones.enter_context(Apart(contest, contender, setting))
                except ImportError:
                    by_name[contender.name].missing = NOT_INSTALLED
                    bar.update(runs)
                except RuntimeError as error:
                    by_name[contender.name].missing = _failed(error)
                    bar.update(runs)
            for number in range(rounds + 1):
                for name, racer in list(racers.items()):
                    bar.set_postfix_str(name)
                    try:
                        speed = racer.work(number)
                    except RuntimeError as error:  # one that has no room, for example; the others go on
                        by_name[name].missing = _failed(error)
                        by_name[name].speeds.clear()
                        racers.pop(name)
                        continue
                    if number > 0:
                        by_name[name].speeds.append(speed)
                    bar.update()
        if contest.memory:  # in new processes, and when all memory is free again
            for contender in contest.contenders:
                if not by_name[contender.name].missing:
                    bar.set_postfix_str(f"{contender.name}, memory")
                    try:
                        with Apart(contest, contender, setting) as alone:
                            by_name[contender.name].peak_memory = alone.peak_memory()
                    except RuntimeError as error:  # what was timed is worth keeping
                        bar.write(f"no peak memory of {error}", file=sys.stderr)
                    bar.update()
    for row in rows:
        other = by_name[row.against]
        if row.speeds and other.speeds:
            row.speed = statistics.median(row.speeds)
            row.speed_ratio = statistics.median(o / s for o, s in zip(other.speeds, row.speeds, strict=True))
        if row.peak_memory and other.peak_memory:
            row.memory_ratio = other.peak_memory / row.peak_memory
    return rows


def _failed(error: RuntimeError) -> str:
    return f"failed: {str(error).strip().splitlines()[0][:80]}"
