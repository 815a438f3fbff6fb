"""Strings that are difficult for a tokenizer: a list, and random ones, the same in every run."""

import random
import unicodedata

STRINGS = [
    "",
    " ",
    " \t\n\r\x0b\x0c ",
    "▁",
    "▁▁a▁",
    "<pad> <bos>a<eos> <unk>",
    "A man in a blue shirt is standing on a ladder.",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter.",
    "  two  spaces\tand a\ttab  ",
    "no-break\u00a0space, thin\u2009space, ideographic\u3000space, zero-width\u200bspace",
    "\x00",
    "a\x00b",
    "\x01\x02\x03 control \x1b[31m characters \x7f\x80\x85\x9f",
    "\x1c\x1d\x1e\x1f separators \x1c between",
    "\ufeffa byte order mark\ufeff",
    "\ufffd \ufffe \uffff \U0010ffff \ue000",
    "soft\u00adhyphen, word\u2060joiner, left-to-right\u200emark",
    "🙂",
    "A 👩‍👩‍👧‍👦 family, a 🏳️‍🌈 flag, 🇩🇪🇫🇷, 👍🏽 thumbs, 1️⃣",
    "🙂 🙂🙂 a🙂b 🙂",
    "שלום עולם",
    "مرحبا بالعالم، ١٢٣",
    "\u202eright to left\u202c and back \u2067again\u2069",
    "e\u0301 é e\u0323\u0301 e\u0301\u0323 \u1ebf",
    "Z\u0351\u0343\u0346a\u0334\u0321\u034al\u0331\u0349g\u0328\u0315o\u0338\u0322",
    "a" + "\u0301" * 100,
    "\u0301 starts with an accent",
    "ﬁ ﬂ ﬀ Ⅷ ① ㎏ ½ ² ™ … ﷺ",
    "ＦＵＬＬ ｗｉｄｔｈ ｶﾞ",
    "각 각 한국어",
    "日本語の文章、中文句子。",
    "ไทย नमस्ते தமிழ்",
    "ſ ẞ ß İ ı K Å Ω",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛",
    "\U0001ccd6\U0001ccd7 and \ua7f1 are of Unicode 16 and 17",
    'don\'t "quote" „deutsch“ ‘so’ –—-',
    "http://example.org/?a=b&c=%20#d",
    "a" * 3000,
    "ab" * 2000,
    "word " * 1000,
    "Donaudampfschifffahrtsgesellschaftskapitän" * 20,
    "🙂" * 1000,
    "\ud800",
    "half \udc00 a character",
]
RANGES = [(0, 0x80), (0x80, 0x250), (0x300, 0x370), (0x370, 0x600), (0x600, 0x700), (0x900, 0x1200), (0x1E00, 0x2200)]
RANGES += [
    (0x2200, 0x2800),
    (0x3000, 0x3400),
    (0xAC00, 0xB000),
    (0xF900, 0x10000),
    (0x1D400, 0x1D800),
    (0x1F000, 0x20000),
]


def hard_strings(sentences: list[str], count: int = 500) -> list[str]:
    """Return ``STRINGS``, then random strings of many kinds of characters, and sentences with some of them inserted."""
    rng = random.Random(20170612)
    strings = list(STRINGS)
    while len(strings) < count:
        noise = "".join(character(rng) for _ in range(rng.randint(1, 30)))
        if rng.random() < 0.5:
            sentence = rng.choice(sentences)
            cut = rng.randrange(len(sentence))
            noise = sentence[:cut] + noise[: rng.randint(1, 3)] + sentence[cut:]
        strings.append(noise)
    return strings


def character(rng: random.Random) -> str:
    """Return a random character of Unicode 3.2, which every version of Python and every JavaScript engine knows."""
    while True:
        candidate = chr(rng.randrange(*rng.choice(RANGES)))
        if unicodedata.ucd_3_2_0.category(candidate) not in ("Cn", "Cs"):
            return candidate
