"""Checks of 08 subwords (§5.1)."""

from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise

from exercises.check import Topic
from exercises.errors import RefusedError
from transformer.data import bpe

topic = Topic()
check, given = topic.check, topic.given

SymbolPair = tuple[str, str]


LIST_INSTEAD_OF_TUPLE = (
    "a list instead of a tuple\n{} A list can't be the key of a dict, and it is never equal to a tuple, so the other "
    "blanks can't use it."
)


def _refuse_lists(best: Callable[[dict[SymbolPair, int]], SymbolPair], pairs: dict[SymbolPair, int]) -> SymbolPair:
    """Call an answer for `best_pair`; the pair that it returns is compared with others later, so it can't be a list."""
    pair = best(pairs)
    if isinstance(pair, list) and pair in map(list, pairs):
        raise RefusedError(LIST_INSTEAD_OF_TUPLE.format("Return the pair as it is in `pairs`, a tuple."))
    return pair


def _refuse_lists_of_lists(learn: Callable[[dict[str, int], int], list[SymbolPair]]) -> str | None:
    """Return a message if a right answer for `learn` returns lists: its pairs are compared with others later."""
    if all(isinstance(pair, tuple) for pair in learn({"dog": 1}, 1)):
        return None
    return LIST_INSTEAD_OF_TUPLE.format("Each merge should be a tuple of two symbols.")


# 1 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"words": [["d", "o", "g"], ["d", "o"]], "counts": [3, 1]},
    {"words": [["o", "d", "d", "o"], ["d", "o", "o", "o"]], "counts": [2, 5]},
    {"words": [["th", "e"], ["e", "th"], ["a"]], "counts": [4, 1, 9]},
    {"words": [["b", "a", "n", "a", "n", "a"], ["a", "a", "a"]], "counts": [2, 1]},
)
def count_pairs(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    """Every pair of neighbours, as often as its word occurs."""
    found: Counter[SymbolPair] = Counter()
    for symbols, count in zip(words, counts, strict=True):
        for pair in pairwise(symbols):
            found[pair] += count
    return dict(found)


@count_pairs.mistake(
    "word counts not used", "You count each word once. A pair should count as often as its word occurs in the text."
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    return count_pairs.reference(words, [1] * len(words))


@count_pairs.mistake(
    "a repeated pair counted once per word",
    "If a word contains the same pair twice, you count it only once. Every occurrence counts.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    found: Counter[SymbolPair] = Counter()
    for symbols, count in zip(words, counts, strict=True):
        for pair in set(pairwise(symbols)):
            found[pair] += count
    return dict(found)


@count_pairs.mistake(
    "pairs across word boundaries",
    "You also count the last symbol of a word with the first symbol of the next. Pairs never cross a word boundary.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    all_symbols = [s for symbols, count in zip(words, counts, strict=True) for _ in range(count) for s in symbols]
    return dict(Counter(pairwise(all_symbols)))


@count_pairs.mistake(
    "the order of a pair ignored",
    "You treat a pair and its reverse as the same. `d o` and `o d` are two different pairs.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    found: Counter[SymbolPair] = Counter()
    for (a, b), count in count_pairs.reference(words, counts).items():
        found[(a, b) if a <= b else (b, a)] += count
    return dict(found)


@count_pairs.mistake(
    "the last pair left out", "The last pair of each word is missing: your loop ends one step too early."
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    return count_pairs.reference([symbols[:-1] for symbols in words], counts)


@count_pairs.mistake(
    "keys that are one string",
    "The counts are right, but your keys are strings. The two symbols of a pair have to stay separate.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[str, int]:
    return {"".join(pair): count for pair, count in count_pairs.reference(words, counts).items()}


@count_pairs.mistake(
    "symbols counted instead of pairs",
    "You count how often each symbol occurs. Count how often two symbols are next to each other.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for symbols, count in zip(words, counts, strict=True):
        for symbol in symbols:
            found[symbol] += count
    return dict(found)


@count_pairs.mistake(
    "overlapping pairs counted once",
    "In a word like `a a a` the pair (a, a) occurs twice: the middle symbol belongs to both. You skip the second one.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    found: Counter[SymbolPair] = Counter()
    for symbols, count in zip(words, counts, strict=True):
        last: SymbolPair | None = None
        for pair in pairwise(symbols):
            if pair != last:
                found[pair] += count
            last = None if pair == last else pair
    return dict(found)


@count_pairs.mistake(
    "split into characters again",
    "You go through the characters of a word. After the first merges, its symbols are longer: count pairs of symbols.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    return count_pairs.reference([list("".join(symbols)) for symbols in words], counts)


@count_pairs.mistake(
    "pairs that don't overlap",
    "You move on by two symbols, so you miss every second pair. Each symbol but the last begins a pair.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    found: Counter[SymbolPair] = Counter()
    for symbols, count in zip(words, counts, strict=True):
        for i in range(0, len(symbols) - 1, 2):
            found[symbols[i], symbols[i + 1]] += count
    return dict(found)


@count_pairs.mistake(
    "overwritten instead of added",
    "A pair that occurs in several words has the count of the last of them. Add the counts up.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    return {pair: count for symbols, count in zip(words, counts, strict=True) for pair in pairwise(symbols)}


@count_pairs.mistake(
    "the first occurrence counted as one",
    "When a pair occurs for the first time, you count 1. It counts as often as its word occurs, even the first time.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    found: dict[SymbolPair, int] = {}
    for symbols, count in zip(words, counts, strict=True):
        for pair in pairwise(symbols):
            found[pair] = found[pair] + count if pair in found else 1
    return found


@count_pairs.mistake(
    "only the first word", "You count the pairs of the first word only. Is your `return` inside the outer loop?"
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    return count_pairs.reference(words[:1], counts[:1])


@count_pairs.mistake(
    "symbols that aren't adjacent",
    "You pair each symbol with all those after it. Count only the pair of a symbol and the next one.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    found: Counter[SymbolPair] = Counter()
    for symbols, count in zip(words, counts, strict=True):
        for pair in combinations(symbols, 2):
            found[pair] += count
    return dict(found)


@count_pairs.mistake(
    "the last symbol paired with the first",
    "You also count the last symbol of a word with its first one: in Python, the index -1 is the last entry of a list. "
    "The first symbol has no left neighbour.",
)
def _(words: list[list[str]], counts: list[int]) -> dict[SymbolPair, int]:
    return count_pairs.reference([[*symbols[-1:], *symbols] for symbols in words], counts)


# 2 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"pairs": {("b", "c"): 2, ("c", "a"): 5, ("a", "b"): 1}},
    {"pairs": {("d", "a"): 4, ("b", "c"): 4, ("e", "f"): 4}},
    {"pairs": {("ab", "c"): 4, ("x", "y"): 4, ("b", "bbb"): 4, ("a", "bc"): 3}},
    {"pairs": {("a", "bc"): 4, ("ab", "a"): 4}},
    {"pairs": {("z", "zz"): 9, ("a", "b"): 1, ("a", "c"): 1}},
    {"pairs": {("a", "b"): 3, ("Z", "b"): 3}},
    {"pairs": {("a", "bc"): 2, ("ä", "b"): 2}},
    observe=_refuse_lists,
)
def best_pair(pairs: dict[SymbolPair, int]) -> SymbolPair:
    """The most frequent; of those the shortest, then the first."""
    return min(pairs, key=lambda pair: (-pairs[pair], len("".join(pair)), "".join(pair)))


@best_pair.mistake(
    "ties broken by counting order",
    "The pair is one of the most frequent, but among equally frequent ones you take the one that was counted first. "
    "The text above has the rule for ties.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return max(pairs, key=lambda pair: pairs[pair])


@best_pair.mistake(
    "ties broken by the code points alone",
    "Among equally frequent pairs, the one with the shorter merged symbol comes first. Only if the lengths are equal "
    "does the order of the code points decide, as when Python compares strings. (`len(pair)` is 2 for every pair.)",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (-pairs[pair], "".join(pair)))


@best_pair.mistake(
    "ties broken by the length alone",
    "Among equally frequent pairs of the same length, you take the one that was counted first. The code points "
    "should decide, as when Python compares strings.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (-pairs[pair], len("".join(pair))))


@best_pair.mistake(
    "pairs compared instead of merged symbols",
    "You compare the first symbols of the pairs and then the second ones. Compare the merged symbols.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (-pairs[pair], len("".join(pair)), pair))


@best_pair.mistake(
    "the last one by code points",
    "Among equal pairs you take the last one in the order of code points. Take the first.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return max(pairs, key=lambda pair: (pairs[pair], -len("".join(pair)), "".join(pair)))


@best_pair.mistake(
    "the longest instead of the shortest",
    "Among equally frequent pairs you take the one with the longest merged symbol. Take the shortest.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (-pairs[pair], -len("".join(pair)), "".join(pair)))


@best_pair.mistake(
    "the length before the count",
    "You choose the shortest symbol first and compare counts only among those. The count comes first, and the length "
    "only breaks ties.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (len("".join(pair)), -pairs[pair], "".join(pair)))


@best_pair.mistake("the rarest pair", "You take the rarest pair. The most frequent one is merged first.")
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (pairs[pair], len("".join(pair)), "".join(pair)))


@best_pair.mistake(
    "the pair returned with its count",
    "You return the right pair together with its count, because `pairs.items()` yields both. Return the pair alone.",
)
def _(pairs: dict[SymbolPair, int]) -> tuple[SymbolPair, int]:
    best = best_pair.reference(pairs)
    return best, pairs[best]


@best_pair.mistake(
    "the merged symbol",
    "You return the symbol that the best pair becomes. Return the pair, with its two symbols separate.",
)
def _(pairs: dict[SymbolPair, int]) -> str:
    return "".join(best_pair.reference(pairs))


@best_pair.mistake("the count of the best pair", "You return how often the best pair occurs. Return the pair itself.")
def _(pairs: dict[SymbolPair, int]) -> int:
    return max(pairs.values())


@best_pair.mistake(
    "capitals ignored",
    "You compare in lower case. Compare the merged symbols as they are.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (-pairs[pair], len("".join(pair)), "".join(pair).lower()))


@best_pair.mistake(
    "the last pair of the alphabet",
    "`max(pairs)` compares the pairs themselves. Compare their counts: `pairs[pair]`.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return max(pairs)


@best_pair.mistake(
    "ties broken the wrong way round",
    "Among equally frequent pairs you take the longest, and of those the last one by code points. It should be the "
    "shortest and the first. A large count is wanted, but a small length: one of the two needs a minus sign.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return max(pairs, key=lambda pair: (pairs[pair], len("".join(pair)), "".join(pair)))


@best_pair.mistake(
    "the last one counted",
    "The pair is one of the most frequent, but among equally frequent ones you take the one that was counted last. "
    "The text above has the rule for ties.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return max(list(pairs)[::-1], key=lambda pair: pairs[pair])


@best_pair.mistake(
    "ties broken by the pairs alone",
    "Among equally frequent pairs you take the one that comes first when Python compares tuples. Compare the lengths "
    "of the merged symbols first, and then the merged symbols.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (-pairs[pair], pair))


@best_pair.mistake(
    "counts not used",
    "You take the shortest merged symbol, and the counts make no difference. The most frequent pair comes first; the "
    "length only breaks ties.",
)
def _(pairs: dict[SymbolPair, int]) -> SymbolPair:
    return min(pairs, key=lambda pair: (len("".join(pair)), "".join(pair)))


# 3 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"symbols": ["d", "o", "g"], "pair": ("d", "o")},
    {"symbols": ["a", "b", "c", "a", "b"], "pair": ("a", "b")},
    {"symbols": ["a", "a", "a"], "pair": ("a", "a")},
    {"symbols": ["ca", "b", "a", "bc"], "pair": ("a", "b")},
    {"symbols": ["a"], "pair": ("a", "b")},
    {"symbols": ["a", "c", "a", "b", "a", "b"], "pair": ("a", "b")},
    {"symbols": ["ab", "c", "a", "bc"], "pair": ("a", "bc")},
    {"symbols": ["a", "a", "b", "b"], "pair": ("a", "b")},
    insight="Learning and segmenting are both loops around this function.",
)
def merge_pair(symbols: list[str], pair: SymbolPair) -> list[str]:
    """The package's merge."""
    return bpe.merge_pair(symbols, pair)


@merge_pair.mistake(
    "only the first occurrence", "You merge the pair only where it occurs first. Merge it everywhere in the word."
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    for i, neighbours in enumerate(pairwise(symbols)):
        if neighbours == pair:
            return [*symbols[:i], "".join(pair), *symbols[i + 2 :]]
    return list(symbols)


@merge_pair.mistake(
    "from right to left", "If occurrences of the pair overlap, you merge from the right. Work from left to right."
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    return (
        bpe.merge_pair(symbols[::-1], (pair[1], pair[0]))[::-1] if pair[0] == pair[1] else bpe.merge_pair(symbols, pair)
    )


@merge_pair.mistake(
    "an overlapping symbol merged twice",
    "After a merge you continue with the second symbol of the pair, so it can be merged again. Skip both symbols.",
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
    "the second symbol is kept",
    "You merge the pair but keep its second symbol as well. Both symbols become one. (In a `for` loop, changing the "
    "index has no effect on the next round.)",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    return ["".join(two) if two == pair else two[0] for two in pairwise([*symbols, ""])]


@merge_pair.mistake(
    "text replaced across symbols",
    "You replace text in a string of all symbols. There, the end of one symbol and the start of the next can look "
    "like the pair. Compare whole symbols.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    return " ".join(symbols).replace(" ".join(pair), "".join(pair)).split()


@merge_pair.mistake(
    "adjacent pairs missed",
    "If two occurrences follow each other directly, they share a space in your string, so the second isn't found. "
    "Compare whole symbols.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    return f" {' '.join(symbols)} ".replace(f" {' '.join(pair)} ", f" {''.join(pair)} ").split()


@merge_pair.mistake(
    "earlier merges undone",
    "You join all symbols and split the text again, so earlier merges are lost. Symbols that were already merged have "
    "to stay as they are.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    return bpe.merge_pair(list("".join(symbols)), pair)


@merge_pair.mistake(
    "the last symbol is lost", "If the last symbol isn't part of the pair, it is missing from your result."
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    merged = bpe.merge_pair(symbols, pair)
    return merged if tuple(symbols[-2:]) == pair and merged[-1] == "".join(pair) else merged[:-1]


@merge_pair.mistake(
    "nothing is merged",
    "You return the symbols unchanged. (A list is never equal to a tuple: is that what you compare?)",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    return list(symbols)


@merge_pair.mistake(
    "only the merged symbols compared",
    "You merge whatever gives the same text, such as (ab, c) for the pair (a, bc). Both symbols have to be those "
    "of the pair.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    merged: list[str] = []
    i = 0
    while i < len(symbols):
        width = 2 if "".join(symbols[i : i + 2]) == "".join(pair) and len(symbols[i : i + 2]) == 2 else 1
        merged, i = [*merged, "".join(symbols[i : i + width])], i + width
    return merged


@merge_pair.mistake(
    "the merged symbol taken apart into characters",
    "Your result consists of single characters. `+=` adds the characters of a string one by one, and `list` takes a "
    "string apart. `append` adds it as a whole.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    merged: list[str] = []
    for symbol in bpe.merge_pair(symbols, pair):
        merged += symbol
    return merged


@merge_pair.mistake(
    "the pair itself added",
    "You add the pair, a tuple of two symbols. Join the two into one string.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str | SymbolPair]:
    merged: list[str | SymbolPair] = []
    i = 0
    while i < len(symbols):
        is_pair = tuple(symbols[i : i + 2]) == pair
        merged.append(pair if is_pair else symbols[i])
        i += 1 + is_pair
    return merged


@merge_pair.mistake(
    "the pair merged in either order",
    "You also merge the two symbols if they come in the other order. First and second have to agree with the pair.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    merged, i = [], 0
    while i < len(symbols):
        width = 2 if tuple(symbols[i : i + 2]) in (pair, pair[::-1]) else 1
        merged.append("".join(symbols[i : i + width]))
        i += width
    return merged


@merge_pair.mistake(
    "any two symbols of the pair merged",
    "You only ask whether two neighbours occur in the pair. The first has to be its first symbol, and the second its "
    "second.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    merged, i = [], 0
    while i < len(symbols):
        width = 2 if len(symbols[i : i + 2]) == 2 and set(symbols[i : i + 2]) <= set(pair) else 1
        merged.append("".join(symbols[i : i + width]))
        i += width
    return merged


@merge_pair.mistake(
    "only the first symbol compared",
    "You merge wherever the first symbol of the pair is found. Compare the next symbol with the second one, too.",
)
def _(symbols: list[str], pair: SymbolPair) -> list[str]:
    merged, i = [], 0
    while i < len(symbols):
        width = 2 if symbols[i] == pair[0] else 1
        merged.append("".join(symbols[i : i + width]))
        i += width
    return merged


# 4 --------------------------------------------------------------------------------------------------------------------

SMALL = {"dog": 3, "do": 2, "log": 1}
ANIMALS = {"lower": 5, "lowest": 2, "newer": 6, "wider": 3, "new": 2}


@topic.exercise(
    {"text": SMALL, "n_merges": 2},
    {"text": ANIMALS, "n_merges": 8},
    {"text": {"cat": 1, "at": 1}, "n_merges": 9},
    {"text": {"banana": 2, "ban": 1}, "n_merges": 4},
    {"text": SMALL, "n_merges": 0},
    look_closer=_refuse_lists_of_lists,
    insight="Each merge adds a symbol, so the number of merges sets the size of the vocabulary.",
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
    stop: bool = True,
) -> list[SymbolPair]:
    words, counts = [list(word) for word in text], list(text.values())
    merges: list[SymbolPair] = []
    while len(merges) < n_merges:
        pairs = {p: n for p, n in count_pairs.reference(words, counts).items() if n >= least}
        if stop and not pairs:
            break
        merges.append(best(pairs))
        words = [merge(symbols, merges[-1]) for symbols in words]
    return merges


@learn.mistake(
    "pairs counted only once",
    "You count the pairs of characters once and take the most frequent ones. Each merge creates new symbols and new "
    "pairs, so count again after every merge.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    pairs = count_pairs.reference([list(word) for word in text], list(text.values()))
    return sorted(pairs, key=lambda pair: (-pairs[pair], len("".join(pair)), "".join(pair)))[:n_merges]


@learn.mistake(
    "word counts not used", "You count each word once. A pair should count as often as its word occurs in the text."
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(dict.fromkeys(text, 1), n_merges)


@learn.mistake("one merge too many", "You learn one merge more than asked for.")
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges + 1)


@learn.mistake("one merge too few", "You learn one merge less than asked for.")
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges - 1)


@learn.mistake(
    "pairs that occur once are ignored",
    "You stop when no pair occurs twice. Go on as long as there are pairs and more merges are asked for.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges, least=2)


@learn.mistake(
    "ties broken by counting order",
    "Among equally frequent pairs you take the one that was counted first. `given.best_pair` implements the rule.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges, best=lambda pairs: max(pairs, key=lambda pair: pairs[pair]))


@learn.mistake(
    "merges stored as merged symbols",
    "The merges are right, but you store the merged symbols. A merge has to keep the two symbols separate.",
)
def _(text: dict[str, int], n_merges: int) -> list[str]:
    return ["".join(pair) for pair in _learn(text, n_merges)]


@learn.mistake(
    "only the first occurrence in each word is merged",
    "If a pair occurs twice in a word, you merge it only once there. Merge it everywhere.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges, merge=merge_pair.mistakes[0].function)


@learn.mistake(
    "one merge even if none is wanted",
    "With `n_merges` = 0 you still learn one. Ask whether another merge is wanted before you look for it.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, max(1, n_merges))


@learn.mistake(
    "the words are never merged",
    "Your words stay as they were, so the same pair is found again and again. An assignment to a loop's variable "
    "doesn't change the list that it runs through.",
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges, merge=lambda symbols, pair: symbols)


@learn.mistake(
    "the mark added to each word", "You put the mark ▁ in front of each word. Here, words are split as they are."
)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn({f"▁{word}": count for word, count in text.items()}, n_merges)


NO_PAIRS_LEFT = (
    "After a few merges, every word of the text may be a single symbol. Then there are no pairs left, and there is "
    "nothing to choose from: stop, and return the merges that you have."
)


@learn.mistake("it goes on when no pairs are left", NO_PAIRS_LEFT)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges, stop=False)


@learn.mistake("the maximum taken when no pairs are left", NO_PAIRS_LEFT)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges, lambda pairs: best_pair.reference(pairs) if pairs else max(pairs), stop=False)


@learn.mistake("the first entry taken when no pairs are left", NO_PAIRS_LEFT)
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair]:
    return _learn(text, n_merges, lambda pairs: best_pair.reference(pairs) if pairs else sorted(pairs)[0], stop=False)


@learn.mistake("only the first merge", "You return after the first merge. Is your `return` inside the loop?")
def _(text: dict[str, int], n_merges: int) -> list[SymbolPair] | None:
    return _learn(text, 1) if n_merges else None


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
    {"word": "cab", "merges": [("c", "a"), ("a", "b")]},
    {
        "word": "herst",
        "merges": [("e", "r"), ("h", "er"), ("her", "s"), ("s", "t"), ("b", "e"), ("be", "st"), ("er", "st")],
    },
)
def segment(word: str, merges: list[SymbolPair]) -> list[str]:
    """The package's."""
    return bpe.segment(word, {pair: rank for rank, pair in enumerate(merges)})


@segment.mistake(
    "merges applied from left to right",
    "You merge the leftmost pair that is among the merges. The merge that was learned first comes first, wherever it "
    "is in the word.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    while known := [pair for pair in pairwise(symbols) if pair in merges]:
        symbols = bpe.merge_pair(symbols, known[0])
    return symbols


@segment.mistake(
    "the latest merge first",
    "You apply the merge that was learned last first. Apply them in the order in which they were learned.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    while known := [pair for pair in pairwise(symbols) if pair in merges]:
        symbols = bpe.merge_pair(symbols, max(known, key=merges.index))
    return symbols


@segment.mistake(
    "merges applied in reverse order",
    "You go through the merges backwards. Late merges combine symbols that earlier merges create, so hardly any of "
    "them applies.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    for pair in merges[::-1]:
        symbols = bpe.merge_pair(symbols, pair)
    return symbols


@segment.mistake(
    "the longest known prefix",
    "You look for the longest known symbol from the left, as WordPiece does. BPE repeats its merges in the order in "
    "which they were learned.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    known, found, start = {"".join(pair) for pair in merges}, [], 0
    while start < len(word):
        end = next((e for e in range(len(word), start, -1) if word[start:e] in known), start + 1)
        found.append(word[start:end])
        start = end
    return found


@segment.mistake(
    "stopped at the first merge that doesn't apply",
    "You stop at the first merge that doesn't occur in the word. Later ones may still apply.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    for pair in merges:
        if pair not in pairwise(symbols):
            break
        symbols = bpe.merge_pair(symbols, pair)
    return symbols


@segment.mistake(
    "each merge applied only once", "If a merge fits in two places, you apply it only once. Apply it everywhere."
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    for pair in merges:
        symbols = merge_pair.mistakes[0].function(symbols, pair)
    return symbols


@segment.mistake(
    "unknown characters dropped",
    "You drop characters that are in no merge. They stay in the result, each as a symbol of its own.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    known = {character for pair in merges for character in "".join(pair)}
    return [symbol for symbol in segment.reference(word, merges) if symbol[0] in known]


@segment.mistake("characters only", "You return the word's characters. No merge is applied.")
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    return list(word)


@segment.mistake(
    "the merges sorted by their text",
    "You sort the merges. They come in the order in which they were learned, and this order decides.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    for pair in sorted(merges):
        symbols = bpe.merge_pair(symbols, pair)
    return symbols


@segment.mistake(
    "the merges sorted by their length",
    "You apply short merges first. The merges come in the order in which they were learned, and this order decides.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    for pair in sorted(merges, key=lambda pair: len("".join(pair))):
        symbols = bpe.merge_pair(symbols, pair)
    return symbols


@segment.mistake(
    "the longest merges first",
    "You apply long merges first. The merges come in the order in which they were learned, and this order decides. A "
    "long symbol can't be merged before the short ones that it consists of.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    symbols = list(word)
    for pair in sorted(merges, key=lambda pair: -len("".join(pair))):
        symbols = bpe.merge_pair(symbols, pair)
    return symbols


@segment.mistake("only the first merge", "You return after the first merge. Is your `return` inside the loop?")
def _(word: str, merges: list[SymbolPair]) -> list[str] | None:
    return bpe.merge_pair(list(word), merges[0]) if merges else None


@segment.mistake(
    "the word not split into characters",
    "Your list contains the whole word, so there is nothing to merge. Start with a list of its characters.",
)
def _(word: str, merges: list[SymbolPair]) -> list[str]:
    return [word]


# 6 --------------------------------------------------------------------------------------------------------------------


@topic.exercise(
    {"symbols": ["▁the", "▁do", "g"]},
    {"symbols": ["▁A", "▁", "c", "at", "."]},
    {"symbols": ["▁a", "b"]},
    {"symbols": ["▁", "▁a", "▁"]},
    {"symbols": ["ly", "▁run"]},
    {"symbols": ["▁to▁", "be"]},
    {"symbols": []},
)
def decode(symbols: list[str]) -> str:
    """The package's."""
    return bpe.decode(symbols)


@decode.mistake(
    "the mark is not replaced",
    "The marks are still in your text. Each of them becomes a space. (The mark ▁ is a character of its own, not the "
    "underscore _ of your keyboard: copy it from the task.)",
)
def _(symbols: list[str]) -> str:
    return "".join(symbols)


@decode.mistake(
    "a leading space", "Your text begins with a space, which comes from the mark of the first word. Remove that one."
)
def _(symbols: list[str]) -> str:
    return "".join(symbols).replace("▁", " ")


@decode.mistake(
    "spaces between symbols", "You put a space between all symbols. A new word begins only where there is a mark."
)
def _(symbols: list[str]) -> str:
    return " ".join(symbols).replace("▁", "")


@decode.mistake("no spaces", "You remove the marks, and with them the spaces between the words.")
def _(symbols: list[str]) -> str:
    return "".join(symbols).replace("▁", "")


@decode.mistake(
    "the first character always removed",
    "You always remove the first character. Remove it only if it comes from a mark.",
)
def _(symbols: list[str]) -> str:
    return "".join(symbols).replace("▁", " ")[1:]


@decode.mistake("only the first mark replaced", "You replace a single mark. Each of them becomes a space.")
def _(symbols: list[str]) -> str:
    return "".join(symbols).replace("▁", " ", 1).removeprefix(" ")


@decode.mistake(
    "a list instead of a text", "You return a list of words. Return one string, with spaces between the words."
)
def _(symbols: list[str]) -> list[str]:
    return bpe.decode(symbols).split()


@decode.mistake(
    "spaces removed at both ends",
    "You remove spaces at both ends. Only the one at the beginning comes from the first mark; one at the end "
    "belongs to the text.",
)
def _(symbols: list[str]) -> str:
    return "".join(symbols).replace("▁", " ").strip()


@decode.mistake(
    "symbols joined with spaces",
    "You put a space between all symbols, and keep the marks. Only a mark stands for a space.",
)
def _(symbols: list[str]) -> str:
    return " ".join(symbols)


@decode.mistake(
    "a space for each symbol and each mark",
    "You put a space between all symbols, and another one in place of each mark. Only a mark stands for a space.",
)
def _(symbols: list[str]) -> str:
    return " ".join(symbols).replace("▁", " ").removeprefix(" ")


@decode.mistake(
    "all spaces at the beginning removed",
    "You remove every space at the beginning. Only the one from the first mark is removed; those after it belong to "
    "the text.",
)
def _(symbols: list[str]) -> str:
    return "".join(symbols).replace("▁", " ").lstrip()


@decode.mistake(
    "the first mark removed wherever it is",
    "You remove the first mark even if it isn't at the very beginning. There it stands for a space.",
)
def _(symbols: list[str]) -> str:
    return "".join(symbols).replace("▁", "", 1).replace("▁", " ")


@decode.mistake(
    "only marks at the start of a symbol",
    "You look for the mark only at the start of a symbol. Every mark becomes a space, wherever it is.",
)
def _(symbols: list[str]) -> str:
    return "".join(f" {symbol[1:]}" if symbol[:1] == "▁" else symbol for symbol in symbols).removeprefix(" ")
