"""Validation during training: loss and BLEU on the validation pairs."""

import math
from itertools import islice

import torch

from transformer.config import TrainingConfig
from transformer.data.batching import collate, token_batches
from transformer.data.prepare import PreparedData
from transformer.evaluation.metrics import bleu
from transformer.training.distributed import DistributedContext
from transformer.training.objective import batch_loss
from transformer.translator import Translator


@torch.no_grad()
def validate(
    translator: Translator, data: PreparedData, config: TrainingConfig, context: DistributedContext | None = None
) -> dict[str, float]:
    """Compute the validation loss, and BLEU of greedy translations of the first ``config.validation_sentences``.

    The loss is in nats per token, without label smoothing, over the prepared validation pairs: those longer than
    ``data.max_length`` are not among them. For BLEU, sentences that are empty or too long for the model are left out.

    Args:
        context: the processes that share the work of the loss; all must call this, and get the same result.
    """
    model, device = translator.model, translator.device
    context = context or DistributedContext()
    sources, targets = data.tokens("valid")
    was_training = model.training
    model.eval()
    try:
        loss, n_tokens = 0.0, 0
        plan = token_batches(sources, targets, config.batch_tokens)
        for indices in plan[context.rank :: context.world_size]:
            batch = collate(sources, targets, indices).to(device.torch_device)
            with device.autocast():
                loss += float(batch_loss(model, batch, smoothing=0.0))
            n_tokens += batch.n_tokens
    finally:
        model.train(was_training)
    loss, all_tokens = context.all_reduce([loss, n_tokens])
    if not math.isfinite(loss):  # such a model can't translate
        return {"valid_loss": loss / all_tokens, "valid_bleu": 0.0}
    encode, limit = translator.tokenizer.encode, model.config.max_length
    readable = (pair for pair in data.valid if 0 < len(encode(pair[0])) < limit)
    texts = list(islice(readable, config.validation_sentences))
    hypotheses = translator.greedy_search([source for source, _ in texts])
    return {"valid_loss": loss / all_tokens, "valid_bleu": bleu(hypotheses, [target for _, target in texts]).value}
