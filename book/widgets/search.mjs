// Generate a translation: the greedy search and beam search of transformer/decoding.py, for a single sentence (§6.1).

import { BOS, EOS, PAD } from "./tokenizer.mjs";

/** A translation has at most this many tokens more than its source (§6.1). */
export const EXTRA_LENGTH = 50;

/** Return ((5 + length) / 6)^lengthPenalty, which log-probabilities are divided by so that long translations can compete. */
export const lengthNormalisation = (length, lengthPenalty) => ((5 + length) / 6) ** lengthPenalty;

/** Return how many tokens a translation may have, eos included. */
export const lengthLimit = (model, source) => Math.min(source.length + EXTRA_LENGTH, model.config.max_length);

/**
 * Generate a translation by taking the most probable token at every step.
 *
 * @param {number[]} source token ids, with eos.
 * @returns {number[]} token ids, without bos and eos.
 */
export function greedySearch(model, source) {
  const cache = model.startCache(model.encode(source));
  const translation = [];
  for (let token = BOS, length = 1; ; length++) {
    const logits = model.decodeStep([token], cache)[0];
    token = bestTokens(logits, 1, length === lengthLimit(model, source))[0].token;
    if (token === EOS) return translation;
    translation.push(token);
  }
}

/**
 * Keep the `beamSize` most probable prefixes at every step, and return the best finished translations, best first.
 *
 * @param {number[]} source token ids, with eos.
 * @param {Object} [settings] beamSize: number of prefixes kept; lengthPenalty: exponent of the length normalisation; nBest:
 *   number of translations to return, at most `beamSize`; trace: an array to which every candidate is appended, to draw
 *   the search.
 * @returns {{tokens: number[], logProbability: number, score: number}[]}
 */
export function beamSearch(model, source, settings) {
  const steps = beamSearchSteps(model, source, settings);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** `beamSearch` as a generator that yields after each step, so that a page can draw in between or stop the search. */
export function* beamSearchSteps(model, source, { beamSize = 4, lengthPenalty = 0.6, nBest = 1, trace } = {}) {
  if (!(nBest >= 1 && nBest <= beamSize)) throw new Error(`nBest must be from 1 to beamSize; got nBest ${nBest}, beamSize ${beamSize}`);
  if (!(lengthPenalty >= 0)) throw new Error(`lengthPenalty must not be negative; got ${lengthPenalty}`);
  const limit = lengthLimit(model, source);
  const cache = model.startCache(model.encode(source));
  const finished = [];
  let prefixes = [{ tokens: [], logProbability: 0 }];
  for (let length = 1; ; length++) {
    const logits = model.decodeStep(prefixes.map(({ tokens }) => tokens.at(-1) ?? BOS), cache);
    // Each prefix has one eos, so beamSize of the 2 · beamSize best candidates are certain to continue. These are among
    // the 2 · beamSize best of each prefix.
    const candidates = prefixes
      .flatMap(({ logProbability }, parent) =>
        bestTokens(logits[parent], 2 * beamSize, length === limit).map((best) => ({
          length,
          parent,
          token: best.token,
          logProbability: logProbability + best.logProbability,
          score: (logProbability + best.logProbability) / lengthNormalisation(length, lengthPenalty),
          fate: "dropped",
          beam: null,
        })),
      )
      .sort((a, b) => b.logProbability - a.logProbability)
      .slice(0, 2 * beamSize);
    trace?.push(...candidates);

    // An eos among the beamSize best candidates finishes its hypothesis; the best others become the next prefixes.
    const next = [];
    candidates.forEach((candidate, rank) => {
      const { tokens } = prefixes[candidate.parent];
      const { token, logProbability, score } = candidate;
      if (token === EOS) {
        if (rank >= beamSize) return;
        candidate.fate = "finished";
        finished.push({ tokens, logProbability, score });
      } else if (next.length < beamSize) {
        candidate.fate = "kept";
        candidate.beam = next.length;
        next.push({ tokens: [...tokens, token], logProbability, parent: candidate.parent });
      }
    });
    finished.sort((a, b) => b.score - a.score);
    if (isDone(finished, next, limit, lengthPenalty, nBest)) return finished.slice(0, nBest);
    model.reorder(cache, next.map(({ parent }) => parent));
    prefixes = next;
    yield length;
  }
}

/** Return whether continuing can't change the `nBest`: further tokens only lower a log-probability. */
function isDone(finished, prefixes, limit, lengthPenalty, nBest) {
  if (!prefixes.length) return true;
  if (finished.length < nBest) return false;
  return prefixes[0].logProbability / lengthNormalisation(limit, lengthPenalty) <= finished[nBest - 1].score;
}

/** Return the logarithm of the sum of the exponentials: a logit minus this is a log-probability. */
export function logSumExp(logits) {
  let highest = -Infinity, total = 0;
  for (const logit of logits) if (logit > highest) highest = logit;
  for (const logit of logits) total += Math.exp(logit - highest);
  return highest + Math.log(total);
}

/** Return the most probable next tokens, best first; never pad or bos, and only eos where the limit is reached. */
function bestTokens(logits, count, atLimit) {
  const logTotal = logSumExp(logits);
  const best = []; // so far, in order
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token];
    if (token === PAD || token === BOS || (atLimit && token !== EOS)) continue;
    if (best.length === count && logit <= best[count - 1].logit) continue;
    let rank = best.length;
    while (rank && best[rank - 1].logit < logit) rank--;
    best.splice(rank, 0, { token, logit, logProbability: logit - logTotal });
    if (best.length > count) best.pop();
  }
  return best;
}
