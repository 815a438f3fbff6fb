import pytest
import torch
import torch.nn.functional as F

from transformer.loss import label_smoothed_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_equals_torch_with_gradients(smoothing: float) -> None:
    target = torch.randint(0, 11, (7,))
    ours, theirs = (torch.randn(7, 11, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2))
    a = label_smoothed_cross_entropy(ours, target, smoothing)
    b = F.cross_entropy(theirs, target, label_smoothing=smoothing, reduction="sum")
    a.backward()  # type: ignore[no-untyped-call]
    b.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(a, b)
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_by_hand() -> None:
    # Two equal scores: each token has probability 1/2, whatever the target is smoothed to.
    loss = label_smoothed_cross_entropy(torch.zeros(1, 2), torch.tensor([0]), smoothing=0.2)
    assert float(loss) == pytest.approx(0.693147, abs=1e-6)


def test_certainty_costs_when_smoothed_and_not_otherwise() -> None:
    logits, target = torch.tensor([[60.0, 0.0]]), torch.tensor([0])
    assert float(label_smoothed_cross_entropy(logits, target, 0.0)) == pytest.approx(0.0)
    assert float(label_smoothed_cross_entropy(logits, target, 0.1)) == pytest.approx(0.05 * 60)
