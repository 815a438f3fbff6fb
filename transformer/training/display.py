"""What a training run prints to stderr: a progress bar in a terminal, otherwise one line per row of the log."""

import sys
import time
from types import TracebackType

from tqdm import tqdm

BAR_FORMAT = "{desc}: {n_fmt}/{total_fmt}{postfix}, {remaining} left {bar}"
"""What matters most comes first, because a narrow terminal cuts off the end."""


class Display:
    """Shows the rows of the training log and the validations of a run.

    Args:
        title: text before the bar.
        step: the step at which training starts or resumes.
        steps: the last step.
        hidden: show nothing.
    """

    def __init__(self, title: str, step: int, steps: int, hidden: bool = False) -> None:
        self.first_step, self.steps, self.hidden = step, steps, hidden
        self.started = time.monotonic()
        self.bar = tqdm(
            desc=title,
            initial=step,
            total=steps,
            bar_format=BAR_FORMAT,
            dynamic_ncols=True,
            disable=hidden or not sys.stderr.isatty(),
        )

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.bar.close()

    def advance(self) -> None:
        """Count one step."""
        self.bar.update()

    def message(self, text: str) -> None:
        """Show a line of text."""
        if not self.hidden:
            self.bar.write(text, file=sys.stderr)

    def log(self, row: dict[str, float]) -> None:
        """Show a row of the training log."""
        values = [
            f"loss {row['train_loss']:.3f}",
            f"lr {row['learning_rate']:.1e}",
            f"{row['tokens_per_second']:,.0f} tokens/s",
        ]
        if self.bar.disable:
            step = int(row["step"])
            seconds_per_step = (time.monotonic() - self.started) / (step - self.first_step)
            self._line(step, *values, f"ETA {tqdm.format_interval(seconds_per_step * (self.steps - step))}")
        else:
            self.bar.set_postfix_str(", ".join(values))

    def validation(self, metrics: dict[str, float]) -> None:
        """Show the metrics of a validation."""
        self._line(
            int(metrics["step"]),
            f"validation loss {metrics['valid_loss']:.3f} (not smoothed)",
            f"BLEU {metrics['valid_bleu']:.1f}",
        )

    def _line(self, step: int, *values: str) -> None:
        self.message("  ".join([f"step {step}/{self.steps}", *values]))
