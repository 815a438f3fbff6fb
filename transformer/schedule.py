"""The learning-rate schedule: linear warm-up, then decay with the inverse square root of the step (§5.3)."""


def learning_rate(step: int, d_model: int, warmup_steps: int = 4000, factor: float = 1.0) -> float:
    """Return factor · d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5) (§5.3).

    Args:
        step: number of the optimiser step, starting at 1.
        d_model: the model's width.
        warmup_steps: the step at which the learning rate reaches its peak.
        factor: multiplies the learning rate; 1 in the paper.

    Raises:
        ValueError: if ``step`` or ``warmup_steps`` is less than 1.
    """
    if step < 1 or warmup_steps < 1:
        raise ValueError(f"step and warmup_steps must be at least 1; got step={step}, warmup_steps={warmup_steps}")
    return float(factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))
