// From probabilities to a sentence: greedy and beam search of transformer/decoding.py, for one sentence (§6.1).

import { BOS, EOS, PAD } from "./tokenizer.mjs";

/** A translation may have this many tokens more than its source (§6.1). */
export const EXTRA_LENGTH = 50;

/** ((5 + length) / 6)^α: a log-probability is divided by it, so that long translations have no disadvantage. */
export const lengthPenalty = (length, alpha) => ((5 + length) / 6) ** alpha;

/** How many tokens a translation may have, eos included. */
export const lengthLimit = (model, source) => Math.min(source.length + EXTRA_LENGTH, model.config.max_length);

/**
 * Take the most probable token at every step.
 *
 * @param {number[]} source token ids, with eos.
 * @returns {number[]} token ids, without bos and eos.
 */
export function greedySearch(model, source) {
  const cache = model.startCache(model.encode(source));
  const found = [];
  for (let token = BOS, length = 1; ; length++) {
    const logits = model.decodeStep([token], cache)[0];
    token = bestTokens(logits, 1, length === lengthLimit(model, source))[0].token;
    if (token === EOS) return found;
    found.push(token);
  }
}

/**
 * Keep the `beam` best beginnings at every step, and return the best finished translations, best first.
 *
 * @param {number[]} source token ids, with eos.
 * @param {Object} [settings] beam: beginnings kept; alpha: strength of the length penalty; nBest: translations wanted,
 *   at most `beam`; trace: an array that is given every candidate weighed, for a picture of the search.
 * @returns {{tokens: number[], logProbability: number, score: number}[]}
 */
export function beamSearch(model, source, settings) {
  const steps = beamSearchSteps(model, source, settings);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** `beamSearch`, which pauses after each step: a page can draw meanwhile, or give the search up. */
export function* beamSearchSteps(model, source, { beam = 4, alpha = 0.6, nBest = 1, trace } = {}) {
  if (!(nBest >= 1 && nBest <= beam)) throw new Error(`nBest must be from 1 to beam; got ${nBest}, beam ${beam}`);
  if (!(alpha >= 0)) throw new Error(`alpha must not be negative; got ${alpha}`);
  const limit = lengthLimit(model, source);
  const cache = model.startCache(model.encode(source));
  const finished = [];
  let living = [{ tokens: [], logProbability: 0 }]; // at first there is one beginning
  for (let length = 1; ; length++) {
    const logits = model.decodeStep(living.map(({ tokens }) => tokens.at(-1) ?? BOS), cache);
    // The best 2 · beam of all are among the best 2 · beam of each beginning, and at most half of them end.
    const candidates = living
      .flatMap(({ logProbability }, parent) =>
        bestTokens(logits[parent], 2 * beam, length === limit).map((best) => ({
          length,
          parent,
          token: best.token,
          logProbability: logProbability + best.logProbability,
          score: (logProbability + best.logProbability) / lengthPenalty(length, alpha),
          fate: "dropped",
          beam: null,
        })),
      )
      .sort((a, b) => b.logProbability - a.logProbability)
      .slice(0, 2 * beam);
    trace?.push(...candidates);

    // An eos among the `beam` best candidates finishes its hypothesis; the best others live on.
    const next = [];
    candidates.forEach((candidate, place) => {
      const { tokens } = living[candidate.parent];
      const { token, logProbability, score } = candidate;
      if (token === EOS) {
        if (place >= beam) return;
        candidate.fate = "finished";
        finished.push({ tokens, logProbability, score });
      } else if (next.length < beam) {
        candidate.fate = "kept";
        candidate.beam = next.length;
        next.push({ tokens: [...tokens, token], logProbability, parent: candidate.parent });
      }
    });
    finished.sort((a, b) => b.score - a.score);
    if (isDone(finished, next, limit, alpha, nBest)) return finished.slice(0, nBest);
    model.follow(cache, next.map(({ parent }) => parent));
    living = next;
    yield length;
  }
}

/** Whether running on cannot change the `nBest`: log-probabilities only fall, penalties only grow. */
function isDone(finished, living, limit, alpha, nBest) {
  if (!living.length) return true;
  if (finished.length < nBest) return false;
  return living[0].logProbability / lengthPenalty(limit, alpha) <= finished[nBest - 1].score;
}

/** The most probable next tokens, best first; never pad or bos, and nothing but eos where the limit is reached. */
function bestTokens(logits, count, endsHere) {
  let top = -Infinity, total = 0;
  for (let i = 0; i < logits.length; i++) if (logits[i] > top) top = logits[i];
  for (let i = 0; i < logits.length; i++) total += Math.exp(logits[i] - top);
  const logTotal = top + Math.log(total);
  const found = []; // the best so far, in order
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token];
    if (token === PAD || token === BOS || (endsHere && token !== EOS)) continue;
    if (found.length === count && logit <= found[count - 1].logit) continue;
    let place = found.length;
    while (place && found[place - 1].logit < logit) place--;
    found.splice(place, 0, { token, logit, logProbability: logit - logTotal });
    if (found.length > count) found.pop();
  }
  return found;
}
