// Split a text into sentences, by the rules of transformer/data/sentences.py.

import { WHITE_SPACE } from "./tokenizer.mjs";

const ABBREVIATIONS = "mr mrs ms dr prof st mt hr fr vs ca approx bzw bspw evtl ggf inkl sog vgl".split(" ");
const BEFORE_NUMBERS = "no nr jan feb mar apr jun jul aug sep sept oct okt nov dec dez".split(" ");
const BEFORE_ORDINALS = "der die das dem den des im vom zum zur beim".split(" ");
const MONTHS = "Januar|Jänner|Februar|Feber|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember";
const MONTHS_ABBREVIATED = "(?:Jan|Feb|Apr|Jun|Jul|Aug|Sept?|Okt|Nov|Dez)\\.";
const AFTER_ORDINALS = new RegExp(
  `^(?:${MONTHS}|${MONTHS_ABBREVIATED}|Jahrhunderts?|Geburtstag(?:e?s)?)(?![\\p{L}\\p{N}_])`, "iu");

const OPENING = "\"'„“‚‘«»([", MARKS = ".!?…", CLOSING = "\"'“”‘’«»)]";
const LETTERS = /^(?:[a-zäöü]\.)*[a-hj-zäöü]$/u;
const LOWER_CASE = /^["'„“‚‘«»(\[]*[a-zäöüß]/u;

/**
 * Return the sentences of a text in their order, with single spaces between words.
 *
 * @param {string} text
 * @returns {string[]}
 */
export function splitSentences(text) {
  const words = text.split(WHITE_SPACE).filter(Boolean);
  const hasCapitals = text !== text.toLowerCase();
  const sentences = [];
  let start = 0;
  words.forEach((word, i) => {
    if (i + 1 < words.length && !endsSentence(i > start ? words[i - 1] : "", word, words[i + 1], hasCapitals)) return;
    sentences.push(words.slice(start, i + 1).join(" "));
    start = i + 1;
  });
  return sentences;
}

/**
 * Return the beginning of a text: as many whole sentences as fit into `limit` characters; if not even the first one fits,
 * as many words; if not even the first word fits, a part of it. A text that fits is returned unchanged.
 *
 * @param {string} text
 * @param {number} limit the largest number of characters, if runs of white space count as one.
 * @returns {string}
 */
export function shorten(text, limit) {
  const words = text.split(WHITE_SPACE).filter(Boolean);
  const characters = (word) => [...word.slice(0, 2 * limit + 2)]; // a character takes one or two code units
  let count = 0, length = -1;
  for (; count < words.length; count++) {
    length += 1 + characters(words[count]).length;
    if (length > limit) break;
  }
  if (count === words.length) return text;
  if (!count) return characters(words[0]).slice(0, limit).join("");
  const fitting = words.slice(0, count).join(" ");
  let whole = "";
  for (const sentence of splitSentences(words.slice(0, count + 1).join(" "))) {
    const longer = whole ? `${whole} ${sentence}` : sentence;
    if (longer.length > fitting.length) break;
    whole = longer;
  }
  return whole || fitting;
}

/** Return the length of a word without those of its last characters that are among `characters`. */
function lengthWithout(characters, word) {
  let length = word.length;
  while (length && characters.includes(word[length - 1])) length--;
  return length;
}

/**
 * Return whether a word ends its sentence, given the sentence's word before it, if any, the next word of the text, and
 * whether the text has capitals.
 */
function endsSentence(before, word, following, hasCapitals) {
  const withMarks = word.slice(0, lengthWithout(CLOSING, word)), end = lengthWithout(MARKS, withMarks);
  const marks = withMarks.slice(end), closing = word.slice(withMarks.length);
  if (!marks) return false;
  let start = 0;
  while (start < end && OPENING.includes(word[start])) start++;
  const stem = word.slice(start, end).toLowerCase();
  if (LOWER_CASE.test(following) && (hasCapitals || marks !== "." || closing)) {
    return /[!?]$/u.test(marks) && !closing; // "Stop!" he said. But: hello! how are you?
  }
  if (marks !== ".") return true;
  if (/^[0-9]{1,2}$/u.test(stem)) {
    return !(!before || BEFORE_ORDINALS.includes(before.toLowerCase()) || AFTER_ORDINALS.test(following));
  }
  if (/^[0-9]/u.test(following) && (BEFORE_NUMBERS.includes(stem) || stem.endsWith("str"))) return false;
  if (hasCapitals && (stem === "a.m" || stem === "p.m")) return true;
  return !(ABBREVIATIONS.includes(stem) || LETTERS.test(stem) || !hasCapitals && (stem === "etc" || stem === "usw"));
}
