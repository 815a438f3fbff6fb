"""The learning rate over time: a straight warm-up, then the inverse square root of the step (§5.3)."""


def learning_rate(step: int, d_model: int, warmup_steps: int = 4000, factor: float = 1.0) -> float:
    """factor · d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5) (§5.3).

    Args:
        step: the optimiser step about to be taken, counted from 1.
        d_model: the model's width.
        warmup_steps: the step at which the rate is highest.
        factor: multiplies the whole curve; the paper's is 1.

    Raises:
        ValueError: if ``step`` or ``warmup_steps`` is below 1.
    """
    if step < 1 or warmup_steps < 1:
        raise ValueError(f"step and warmup_steps count from 1; got step={step}, warmup_steps={warmup_steps}")
    return float(factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))
