// The entry point of transformer/interactive/widgets.mjs: every widget by its name, and the model that the translator runs.

import * as attention from "./attention.mjs";
import * as masks from "./masks.mjs";
import * as merges from "./merges.mjs";
import * as norm from "./norm.mjs";
import * as positions from "./positions.mjs";
import * as schedule from "./schedule.mjs";
import * as smoothing from "./smoothing.mjs";
import * as translator from "./translator.mjs";

export const widgets = { attention, masks, merges, norm, positions, schedule, smoothing, translator };
export { Transformer, startRecord } from "./model.mjs";
export { readTensors } from "./safetensors.mjs";
export { beamSearch, greedySearch } from "./search.mjs";
export { splitSentences } from "./sentences.mjs";
export { EOS, Tokenizer } from "./tokenizer.mjs";
export { Translator, fromBytes } from "./translation.mjs";
