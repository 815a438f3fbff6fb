"""Checks of 08 subwords (§5.1)."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from exercises.check import Topic
from transformer.data import bpe

topic = Topic()
check, given = topic.check, topic.given

SymbolPair = tuple[str, str]


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"words": [["d", "o", "g"], ["d", "o"]], "counts": [3, 1]},
    {"words": [["o", "d", "d", "o"], ["d", "o", "o", "o"]], "counts": [2, 5]},
    {"words": [["th", "e"], ["e", "th"], ["a"]], "counts": [4, 1, 9]},
)
def count_pairs(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    """Every pair of neighbours, as often as its word occurs."""
    found: Counter[SymbolPair] = Counter()
    for symbols, count in zip(words, counts, strict=True):
        for pair in pairwise(symbols):
            found[pair] += count
    return dict(found)


@count_pairs.mistake(
    "each word counts once",
    "Frequent words should weigh more than rare ones: each pair counts as often as its word occurs.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    return count_pairs.reference(words, [1] * len(words))


@count_pairs.mistake(
    "once a word",
    "In a word that has the same pair twice, you count it once. It stands there twice.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    found: Counter[SymbolPair] = Counter()
    for symbols, count in zip(words, counts, strict=True):
        for pair in set(pairwise(symbols)):
            found[pair] += count
    return dict(found)


@count_pairs.mistake(
    "from word to word",
    "You count pairs of a word's last symbol and the next word's first. A merge never leaves its word.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    all_symbols = [s for symbols, count in zip(words, counts, strict=True) for _ in range(count) for s in symbols]
    return dict(Counter(pairwise(all_symbols)))


@count_pairs.mistake(
    "order does not matter",
    "For you a pair and its mirror image are the same. `d o` and `o d` are two different pairs.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    found: Counter[SymbolPair] = Counter()
    for (a, b), count in count_pairs.reference(words, counts).items():
        found[(a, b) if a <= b else (b, a)] += count
    return dict(found)


@count_pairs.mistake(
    "the last pair left out",
    "Each word's last pair is missing: your loop ends one step too early.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    return count_pairs.reference([symbols[:-1] for symbols in words], counts)


@count_pairs.mistake(
    "joined",
    "The counts are right, but the keys are joined strings. A pair has to remember where it was joined.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[str, int]:
    return {"".join(pair): count for pair, count in count_pairs.reference(words, counts).items()}


@count_pairs.mistake(
    "symbols, not pairs",
    "You count how often each symbol occurs. Asked is how often two stand side by side.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for symbols, count in zip(words, counts, strict=True):
        for symbol in symbols:
            found[symbol] += count
    return dict(found)


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"pairs": {("b", "c"): 2, ("c", "a"): 5, ("a", "b"): 1}},
    {"pairs": {("d", "a"): 4, ("b", "c"): 4, ("e", "f"): 4}},
    {"pairs": {("ab", "c"): 4, ("x", "y"): 4, ("b", "bbb"): 4, ("a", "bc"): 3}},
    {"pairs": {("a", "bc"): 4, ("ab", "a"): 4}},
    {"pairs": {("z", "zz"): 9, ("a", "b"): 1, ("a", "c"): 1}},
)
def best_pair(pairs: dict[SymbolPair, int]) -> SymbolPair:
    """The most frequent; of those the shortest, then the first."""
    return min(pairs, key=lambda pair: (-pairs[pair], len("".join(pair)), "".join(pair)))


@best_pair.mistake(
    "the first that was counted",
    "It is the most frequent, but among equals you take whichever was counted first. The rule for ties is in the "
    "text above.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return max(pairs, key=lambda pair: pairs[pair])


@best_pair.mistake(
    "ties by the alphabet alone",
    "Among equally frequent pairs the shorter symbol comes first, and only then the alphabet.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (-pairs[pair], "".join(pair)))


@best_pair.mistake(
    "ties by the length alone",
    "Among equally long ones you take whichever was counted first.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (-pairs[pair], len("".join(pair))))


@best_pair.mistake(
    "the pairs compared, not what they become",
    "You compare the first halves, and then the second ones. It is the joined symbols that are compared.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (-pairs[pair], len("".join(pair)), pair))


@best_pair.mistake(
    "the last in the alphabet",
    "Among equals you take the last one, where the first is asked for.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return max(pairs, key=lambda pair: (pairs[pair], -len("".join(pair)), "".join(pair)))


@best_pair.mistake(
    "the longer first",
    "Among equals you take the longest symbol, where the shortest is asked for.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (-pairs[pair], -len("".join(pair)), "".join(pair)))


@best_pair.mistake(
    "the length before the count",
    "You take the shortest symbol of all, and look at the counts only among equally short ones. It is the other way "
    "round: the length decides only among equally frequent pairs.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (len("".join(pair)), -pairs[pair], "".join(pair)))


@best_pair.mistake(
    "the rarest",
    "You take the rarest pair. What is merged first is what occurs most.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (pairs[pair], len("".join(pair)), "".join(pair)))


@best_pair.mistake(
    "the pair with its count",
    "The right pair, and its count beside it: `pairs.items()` has both. Asked is the pair alone.",
)
def _(pairs: dict[SymbolPair, int]) -> tuple[SymbolPair, int]:
    best = best_pair.reference(pairs)
    return best, pairs[best]


@best_pair.mistake(
    "joined",
    "That is the symbol that the right pair becomes. The pair itself is asked for, with its two halves apart.",
)
def _(pairs: dict[SymbolPair, int]) -> str:
    return "".join(best_pair.reference(pairs))


@best_pair.mistake(
    "its count",
    "That is how often the best pair occurs. Which pair is it?",
)
def _(pairs: dict[SymbolPair, int]) -> int:
    return max(pairs.values())


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"symbols": ["d", "o", "g"], "pair": ("d", "o")},
    {"symbols": ["a", "b", "c", "a", "b"], "pair": ("a", "b")},
    {"symbols": ["a", "a", "a"], "pair": ("a", "a")},
    {"symbols": ["ca", "b", "a", "bc"], "pair": ("a", "b")},
    {"symbols": ["a"], "pair": ("a", "b")},
    {"symbols": ["a", "c", "a", "b", "a", "b"], "pair": ("a", "b")},
)
def merge_pair(symbols: list[str], pair: SymbolPair) -> list[str]:
    """The package's merge."""
    return bpe.merge_pair(symbols, pair)


@merge_pair.mistake(
    "only the first",
    "The pair stands in the word more than once, and you join it once.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    for i, neighbours in enumerate(pairwise(symbols)):
        if neighbours == pair:
            return [*symbols[:i], "".join(pair), *symbols[i + 2 :]]
    return list(symbols)


@merge_pair.mistake(
    "from right to left",
    "Where a pair overlaps itself you join from the right. From left to right is asked for.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    return (
        bpe.merge_pair(symbols[::-1], (pair[1], pair[0]))[::-1] if pair[0] == pair[1] else bpe.merge_pair(symbols, pair)
    )


@merge_pair.mistake(
    "joined twice",
    "After a join you go on with its second half, so that it can be joined again. What has been joined is done with.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    merged, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            merged.append("".join(pair))
            i += 1 if tuple(symbols[i + 1 : i + 3]) == pair else 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


@merge_pair.mistake(
    "the second half stays",
    "You join the pair and leave its second half standing behind it, as if it had not been used.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    return ["".join(two) if two == pair else two[0] for two in pairwise([*symbols, ""])]


@merge_pair.mistake(
    "by replacing text",
    "You replace in a string of all symbols with spaces between. There the end of one symbol and the beginning of "
    "another look like the pair. Compare whole symbols.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    return " ".join(symbols).replace(" ".join(pair), "".join(pair)).split()


@merge_pair.mistake(
    "side by side",
    "Two pairs that follow each other share the space between them in your text, so the second one is not found. "
    "Compare whole symbols.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    return f" {' '.join(symbols)} ".replace(f" {' '.join(pair)} ", f" {''.join(pair)} ").split()


@merge_pair.mistake(
    "by splitting letters",
    "You join all symbols and cut the text anew. What had been joined before must stay as it is.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    return bpe.merge_pair(list("".join(symbols)), pair)


@merge_pair.mistake(
    "the last symbol lost",
    "If the last symbol is not part of a pair, it is missing.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    merged = bpe.merge_pair(symbols, pair)
    return merged if tuple(symbols[-2:]) == pair and merged[-1] == "".join(pair) else merged[:-1]


@merge_pair.mistake(
    "nothing joined",
    "The symbols come out as they went in.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    return list(symbols)


# 4 --------------------------------------------------------------------------------------------------------------------

SMALL = {"dog": 3, "do": 2, "log": 1}
ANIMALS = {"lower": 5, "lowest": 2, "newer": 6, "wider": 3, "new": 2}


@topic.exercise(
    {"text": SMALL, "n_merges": 2},
    {"text": ANIMALS, "n_merges": 8},
    {"text": {"cat": 1, "at": 1}, "n_merges": 9},
    {"text": {"banana": 2, "ban": 1}, "n_merges": 4},
)
def learn(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    """The package's learner."""
    return [merge.pair for merge in bpe.learn((w for w, count in text.items() for _ in range(count)), n_merges)]


def _learn(
    text: dict[str, int],
    n_merges: int,
    best: Callable[[dict[SymbolPair, int]], SymbolPair] = best_pair.reference,
    merge: Callable[[list[str], SymbolPair], list[str]] = bpe.merge_pair,
    least: int = 1,
) -> list[SymbolPair]:
    words, counts = [list(word) for word in text], list(text.values())
    merges: list[SymbolPair] = []
    while len(merges) < n_merges:
        pairs = {p: n for p, n in count_pairs.reference(words, counts).items() if n >= least}
        if not pairs:
            break
        merges.append(best(pairs))
        words = [merge(symbols, merges[-1]) for symbols in words]
    return merges


@learn.mistake(
    "counted only once",
    "You count the pairs of characters once and take the most frequent of them. After each merge there are new "
    "symbols, and new pairs: count again.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    pairs = count_pairs.reference([list(word) for word in text], list(text.values()))
    return sorted(pairs, key=lambda pair: (-pairs[pair], len("".join(pair)), "".join(pair)))[:n_merges]


@learn.mistake(
    "each word counts once",
    "Frequent words should weigh more than rare ones: their counts are in the dict.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(dict.fromkeys(text, 1), n_merges)


@learn.mistake(
    "one too many",
    "You learn one merge more than is asked for, where there are enough.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges + 1)


@learn.mistake(
    "one too few",
    "You learn one merge less than is asked for.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges - 1)


@learn.mistake(
    "pairs that occur once are left out",
    "You stop when no pair occurs twice. There are still pairs, and merges are asked for.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges, least=2)


@learn.mistake(
    "ties by the order of counting",
    "Among equally frequent pairs you take the one that was counted first. `given.best_pair` knows the rule.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges, best=lambda pairs: max(pairs, key=lambda pair: pairs[pair]))


@learn.mistake(
    "joined",
    "The merges are right, but joined. A merge has to remember which two symbols it joins.",
)
def _(text: dict[str, int], n_merges: int) -> list[str]:
    return ["".join(pair) for pair in _learn(text, n_merges)]


@learn.mistake(
    "only the first place of each word is merged",
    "A pair that stands in a word twice is joined there once. Join it wherever it stands.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges, merge=merge_pair.mistakes[0].function)


# 5 --------------------------------------------------------------------------------------------------------------------

MERGES = [("e", "r"), ("l", "o"), ("lo", "w"), ("n", "e"), ("w", "er"), ("low", "er")]


@topic.exercise(
    {"word": "lower", "merges": MERGES},
    {"word": "newer", "merges": MERGES},
    {"word": "slow", "merges": MERGES},
    {"word": "erlöser", "merges": MERGES},
    {"word": "abc", "merges": [("b", "c"), ("a", "b"), ("ab", "c")]},
    {"word": "abcd", "merges": [("c", "d"), ("a", "b"), ("b", "c")]},
    {"word": "abcb", "merges": [("b", "c"), ("a", "bc"), ("a", "b")]},
    {"word": "x", "merges": []},
)
def segment(word: str, merges: list[SymbolPair]) -> list[str]:
    """The package's."""
    return bpe.segment(word, {pair: rank for rank, pair in enumerate(merges)})


@segment.mistake(
    "from left to right",
    "You join the first pair of the word that is known at all. What was learned first comes first, wherever it stands.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    while known := [pair for pair in pairwise(symbols) if pair in merges]:
        symbols = bpe.merge_pair(symbols, known[0])
    return symbols


@segment.mistake(
    "the latest first",
    "You begin with what was learned last. It is repeated in the order of learning.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    while known := [pair for pair in pairwise(symbols) if pair in merges]:
        symbols = bpe.merge_pair(symbols, max(known, key=merges.index))
    return symbols


@segment.mistake(
    "one pass from the latest to the first",
    "You go through the merges backwards. The symbols of a late merge are made by early ones, so that hardly any of "
    "it fits.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    for pair in merges[::-1]:
        symbols = bpe.merge_pair(symbols, pair)
    return symbols


@segment.mistake(
    "the longest known beginning",
    "You look for the longest known symbol, from the left. Other methods do that. Here the merges are repeated.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    known, found, start = {"".join(pair) for pair in merges}, [], 0
    while start < len(word):
        end = next((e for e in range(len(word), start, -1) if word[start:e] in known), start + 1)
        found.append(word[start:end])
        start = end
    return found


@segment.mistake(
    "stopped at the first that does not fit",
    "You stop at the first merge that the word does not have. The next ones may fit.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    for pair in merges:
        if pair not in pairwise(symbols):
            break
        symbols = bpe.merge_pair(symbols, pair)
    return symbols


@segment.mistake(
    "each merge at one place",
    "A merge that fits twice is made once. Make it wherever it fits.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    for pair in merges:
        symbols = merge_pair.mistakes[0].function(symbols, pair)
    return symbols


@segment.mistake(
    "unknown characters dropped",
    "Characters that are in no merge are missing. They stay as they are, each a symbol.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    known = {character for pair in merges for character in "".join(pair)}
    return [symbol for symbol in segment.reference(word, merges) if symbol[0] in known]


@segment.mistake(
    "characters",
    "The word is spelled in characters, and nothing is merged.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    return list(word)


# 6 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"symbols": ["▁the", "▁do", "g"]},
    {"symbols": ["▁A", "▁", "c", "at", "."]},
    {"symbols": ["▁a", "b"]},
    {"symbols": ["ly", "▁run"]},
    {"symbols": []},
)
def decode(symbols: list[str]) -> str:
    """The package's."""
    return bpe.decode(symbols)


@decode.mistake(
    "the mark left in",
    "The marks are still there: each stands for a space.",
)
def _(symbols: list[str]) -> str:
    return "".join(symbols)


@decode.mistake(
    "a space in front",
    "The text begins with a space: it came from the first word's mark.",
)
def _(symbols: list[str]) -> str:
    return "".join(symbols).replace("▁", " ")


@decode.mistake(
    "spaces between symbols",
    "You put a space between all symbols. Only where a mark stands, a word begins.",
)
def _(symbols: list[str]) -> str:
    return " ".join(symbols).replace("▁", "")


@decode.mistake(
    "no spaces",
    "The marks are gone, and the spaces with them.",
)
def _(symbols: list[str]) -> str:
    return "".join(symbols).replace("▁", "")


@decode.mistake(
    "the first character cut off",
    "You cut off the first character whatever it is. It goes only if it came from a mark.",
)
def _(symbols: list[str]) -> str:
    return "".join(symbols).replace("▁", " ")[1:]


@decode.mistake(
    "only the first mark",
    "You replace one mark. Each of them is a space.",
)
def _(symbols: list[str]) -> str:
    return "".join(symbols).replace("▁", " ", 1).removeprefix(" ")


@decode.mistake(
    "a list",
    "These are words in a list. They should be one text, with spaces between them.",
)
def _(symbols: list[str]) -> list[str]:
    return bpe.decode(symbols).split()
