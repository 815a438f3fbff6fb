"""The mean and standard deviation of a measurement over several seeds."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over several seeds."""

    mean: float
    deviation: float | None
    """The sample standard deviation; None for a single value."""
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Compute them from one or more values.

        Raises:
            ValueError: if there is no value.
        """
        if not values:
            raise ValueError("there is no value to take the mean of")
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    def text(self, digits: int = 1) -> str:
        """Return "mean ± deviation"."""
        return f"{self.mean:.{digits}f}" + (
            "" if self.deviation is None else f"\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{self.deviation:.{digits}f}"
        )
