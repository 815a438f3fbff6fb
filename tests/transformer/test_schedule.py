import pytest

from transformer.schedule import learning_rate


def test_values_of_the_paper() -> None:
    assert learning_rate(1, 512) == pytest.approx(512**-0.5 * 4000**-1.5)
    assert learning_rate(4000, 512) == pytest.approx(512**-0.5 * 4000**-0.5) == pytest.approx(6.9877e-4, rel=1e-4)
    assert learning_rate(16000, 512) == pytest.approx(learning_rate(4000, 512) / 2)


def test_the_peak_is_at_the_end_of_the_warm_up() -> None:
    rates = [learning_rate(step, 64, warmup_steps=10) for step in range(1, 40)]
    assert rates.index(max(rates)) == 9
    assert learning_rate(3, 64, 10, factor=2.0) == pytest.approx(2 * rates[2])


def test_without_warm_up_the_rate_only_decays() -> None:
    assert learning_rate(1, 64, warmup_steps=1) == pytest.approx(1 / 8)
    assert learning_rate(4, 64, warmup_steps=1) == pytest.approx(1 / 16)


@pytest.mark.parametrize(("step", "warmup"), [(0, 10), (1, 0)])
def test_arguments_below_one_are_rejected(step: int, warmup: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        learning_rate(step, 512, warmup)
