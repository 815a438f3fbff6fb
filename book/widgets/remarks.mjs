// The live translator's remarks on a text before it is translated: characters that the model doesn't know, and the wrong language.

import { UNK } from "./tokenizer.mjs";

/** Frequent words that are in one of the languages only, in lower case. */
const FREQUENT = {
  de:
    "aber alle alles auch auf aus bei beim bin bist bitte danke das dass dein deine dem den der des dich diese dieser " +
    "dieses dir ein eine einem einen einer eines einmal er es etwas frau fährt für ganz gehe gehen geht gehört gern gibt " +
    "gute guten hab habe haben habt hast haus heute hier hätte ich ihm ihn ihnen ihr immer ist jetzt kann kannst kein " +
    "keine kinder komm komme kommt können könnte liebe mache machen mehr mein meine mich mir mit morgen muss möchte " +
    "möchtest nach nein nicht nichts noch nur oder schon schön sehr sein seine seinen sich sie sind uhr und uns unser viel " +
    "viele vom von vor wann war's waren warst warum weiß wenn wer werden wie wieder willst wir wird wo wohin wollen wurde " +
    "wäre würde zu zum zur zwei über",
  en:
    "about after and any are aren't because been before but by can can't could did didn't do does doesn't doing don't down " +
    "every for from get give go going good had has have he hello here him his house how i i'd i'll i'm i've if into is " +
    "isn't it it's its just know let's like love make me more my need never no not of on one or our out people please " +
    "really said see she should some tell than thank thanks that that's the their them there these they think this those " +
    "time to today tomorrow too two up very want we were what what's when where which who why with won't work would yes " +
    "you your",
};
const WORDS = Object.fromEntries(Object.entries(FREQUENT).map(([language, words]) => [language, new Set(words.split(" "))]));

/**
 * Return whether a text looks like one language rather than another: it has more of that language's frequent words, and at
 * least two of them, or one if the text is short.
 *
 * @param {string} text
 * @param {string} language a language as HTML names it: "de".
 * @param {string} other
 * @returns {boolean} false if the page has no words of one of the languages.
 */
export function looksLike(text, language, other) {
  if (!WORDS[language] || !WORDS[other]) return false;
  const words = text.toLowerCase().replaceAll("’", "'").match(/[\p{L}\p{M}']+/gu) ?? [];
  const [ours, theirs] = [language, other].map((one) => words.filter((word) => WORDS[one].has(word)).length);
  const isBeginning = words.length === 1 && words[0].length < 4; // the first letters of "would" are "wo"
  return !isBeginning && ours >= (words.length > 4 ? 2 : 1) && ours > theirs;
}

const graphemes = (text) => (Intl.Segmenter ? Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment) : [...text]);

/**
 * Return a text without the characters that a vocabulary doesn't have, for which a model would only guess. A letter with an
 * unknown accent loses the accent.
 *
 * @param {string} text
 * @param {Tokenizer} tokenizer
 * @returns {{text: string, leftOut: string[], plain: string[]}} the characters that were left out, and the letters that were
 *   replaced, each once.
 */
export function withoutUnknown(text, tokenizer) {
  const isKnown = (part) => !tokenizer.encode(part).some((id) => id === UNK || tokenizer.isByte(id));
  if (isKnown(text)) return { text, leftOut: [], plain: [] };
  const leftOut = new Set(), plain = new Set();
  let kept = "", isGap = false;
  for (const character of graphemes(text)) {
    let part = character;
    if (!isKnown(part)) {
      part = part.normalize("NFD").replace(/\p{M}/gu, "");
      const isPlain = /\p{L}/u.test(part) && part !== character.normalize("NFD") && isKnown(part);
      (isPlain ? plain : leftOut).add(character);
      if (!isPlain) {
        isGap = true;
        continue;
      }
    }
    if (isGap && /^[.,;:!?]/u.test(part)) kept = kept.trimEnd();
    if (isGap && /[\p{L}\p{N}]$/u.test(kept) && /^[\p{L}\p{N}]/u.test(part)) kept += " ";
    kept += part;
    isGap = false;
  }
  return { text: kept, leftOut: [...leftOut], plain: [...plain] };
}

/** List some characters for a sentence, the invisible ones by their code points. */
export function listCharacters(characters, most = 12) {
  const codes = (character) => Array.from(character, (one) => `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`).join(" ");
  const shown = characters.slice(0, most).map((one) => (/^[\p{C}\p{M}\p{Z}]+$/u.test(one) ? codes(one) : one));
  return shown.join(" ") + (characters.length > most ? " …" : "");
}
