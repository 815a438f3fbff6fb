"""What training minimises (§5.4): the label-smoothed loss of a batch."""

from torch import Tensor, nn

from transformer.data.batching import Batch
from transformer.data.tokenizer import PAD
from transformer.loss import linear_label_smoothed_cross_entropy
from transformer.model import Transformer


class ModelWithLoss(nn.Module):
    """A model and its loss in one module, because DistributedDataParallel wraps modules."""

    def __init__(self, model: Transformer, label_smoothing: float) -> None:
        super().__init__()
        self.model, self.label_smoothing = model, label_smoothing

    def forward(self, source: Tensor, decoder_input: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss of a `Batch`, summed over its target tokens except padding: a scalar, in nats."""
        memory, memory_mask = self.model.encode(source)
        states = self.model.decode(decoder_input, memory, memory_mask).flatten(0, 1)
        weight = self.model.unembedding.weight
        return linear_label_smoothed_cross_entropy(states, weight, labels.flatten(), self.label_smoothing, pad_id=PAD)


def batch_loss(model: Transformer, batch: Batch, smoothing: float) -> Tensor:
    """Compute the label-smoothed loss, summed over a batch's target tokens except padding: a scalar, in nats."""
    loss: Tensor = ModelWithLoss(model, smoothing)(batch.source, batch.decoder_input, batch.labels)
    return loss
