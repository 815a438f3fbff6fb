"""The pocket corpus: each rule is tested on a hand-written sentence, and all sentences have certain properties."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, get_args

import pytest

from transformer.data import pocket
from transformer.data.pocket import AlignedPair, Split, sampler
from transformer.data.pocket.grammar import (
    BE,
    POSSESSIVES,
    PRONOUNS,
    WHO,
    AdjectivePredicate,
    AgePredicate,
    Clause,
    Invariable,
    Name,
    Noun,
    NounPhrase,
    Prepositional,
    RelativeGap,
    Sentence,
    Verb,
    lexicon,
    number_words,
    render,
)

pytestmark = pytest.mark.slow

WORDS = lexicon()


def noun(word: str) -> Noun:
    return WORDS.nouns[word]


def np(word: str, determiner: str | int = "the", *adjectives: str, **more: Any) -> NounPhrase:
    chosen = tuple({**WORDS.adjectives, **WORDS.colours}[adjective] for adjective in adjectives)
    return NounPhrase(noun(word), determiner, adjectives=chosen, **more)


def verb(base: str, frame: str = "accusative") -> Verb:
    return WORDS.verbs[base, frame]


def name(word: str) -> Name:
    return Name(WORDS.invariables["name"][word])


def fixed(kind: str, word: str) -> Invariable:
    return WORDS.invariables[kind][word]


class Case(NamedTuple):
    """A syntax tree and its expected rendering."""

    name: str
    tree: Sentence
    english: str
    german: str
    alignment: str


CASES = [
    Case(
        "gender and case",
        Sentence(Clause(np("boy"), verb("see"), accusative=np("dog"))),
        "The boy sees the dog.",
        "Der Junge sieht den Hund.",
        "0-0 1-1 2-2 3-3 4-4 5-5",
    ),
    Case(
        "dative verb",
        Sentence(Clause(np("child"), verb("help", "dative"), dative=np("aunt"))),
        "The child helps the aunt.",
        "Das Kind hilft der Tante.",
        "0-0 1-1 2-2 3-3 4-4 5-5",
    ),
    Case(
        "ditransitive",
        Sentence(
            Clause(name("Anna"), verb("give", "ditransitive"), "past", dative=np("child"), accusative=np("apple", "a"))
        ),
        "Anna gave the child an apple.",
        "Anna hat dem Kind einen Apfel gegeben.",
        "0-0 1-1 1-6 2-2 3-3 4-4 5-5 6-7",
    ),
    Case(
        "adjectives",
        Sentence(Clause(np("man", "a", "old"), verb("buy"), accusative=np("car", "my", "new", "red"))),
        "An old man buys my new red car.",
        "Ein alter Mann kauft mein neues rotes Auto.",
        "0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8",
    ),
    Case(
        "strong adjectives",
        Sentence(Clause(PRONOUNS["we"], verb("drink"), accusative=np("milk", "", "cold"))),
        "We drink cold milk.",
        "Wir trinken kalte Milch.",
        "0-0 1-1 2-2 3-3 4-4",
    ),
    Case(
        "plural",
        Sentence(
            Clause(np("woman", "many", plural=True), verb("trust", "dative"), dative=np("child", "this", plural=True))
        ),
        "Many women trust these children.",
        "Viele Frauen vertrauen diesen Kindern.",
        "0-0 1-1 2-2 3-3 4-4 5-5",
    ),
    Case(
        "front",
        Sentence(
            Clause(
                np("woman"),
                verb("read"),
                accusative=np("book", "a"),
                place=Prepositional("in", np("garden")),
                time=fixed("time", "today"),
                front="time",
            )
        ),
        "Today the woman reads a book in the garden.",
        "Heute liest die Frau im Garten ein Buch.",
        "0-0 1-2 2-3 3-1 4-6 5-7 6-4 7-4 8-5 9-8",
    ),
    Case(
        "final",
        Sentence(
            Clause(np("king"), verb("sleep", "intransitive")),
            "because",
            Clause(PRONOUNS["he"], BE, predicate=AdjectivePredicate(WORDS.adjectives["tired"])),
        ),
        "The king sleeps because he is tired.",
        "Der König schläft, weil er müde ist.",
        "0-0 1-1 2-2 3-4 4-5 5-7 6-6 7-8",
    ),
    Case(
        "fronted",
        Sentence(
            Clause(np("girl"), verb("laugh", "intransitive")),
            "if",
            Clause(np("dog"), verb("snore", "intransitive")),
            fronted=True,
        ),
        "If the dog snores, the girl laughs.",
        "Wenn der Hund schnarcht, lacht das Mädchen.",
        "0-0 1-1 2-2 3-3 4-4 5-6 6-7 7-5 8-8",
    ),
    Case(
        "relative",
        Sentence(
            Clause(
                np(
                    "man",
                    relative=Clause(
                        RelativeGap(noun("man")), verb("write"), "past", accusative=np("letter", "a", "long")
                    ),
                ),
                verb("sing", "intransitive"),
            )
        ),
        "The man who wrote a long letter sings.",
        "Der Mann, der einen langen Brief geschrieben hat, singt.",
        "0-0 1-1 2-3 3-7 3-8 4-4 5-5 6-6 7-10 8-11",
    ),
    Case(
        "relative object",
        Sentence(
            Clause(
                name("Paul"),
                verb("look for"),
                "past",
                accusative=np(
                    "key", relative=Clause(np("woman"), verb("lose"), "past", accusative=RelativeGap(noun("key")))
                ),
            )
        ),
        "Paul looked for the key that the woman lost.",
        "Paul hat den Schlüssel gesucht, den die Frau verloren hat.",
        "0-0 1-1 1-4 2-1 2-4 3-2 4-3 5-6 6-7 7-8 8-9 8-10 9-11",
    ),
    Case(
        "relative dative",
        Sentence(
            Clause(
                np(
                    "pupil",
                    "the",
                    plural=True,
                    relative=Clause(PRONOUNS["I"], verb("help", "dative"), dative=RelativeGap(noun("pupil"), True)),
                ),
                verb("laugh", "intransitive"),
            )
        ),
        "The pupils whom I help laugh.",
        "Die Schüler, denen ich helfe, lachen.",
        "0-0 1-1 2-3 3-4 4-5 5-7 6-8",
    ),
    Case(
        "relative place",
        Sentence(
            Clause(
                np(
                    "house",
                    relative=Clause(
                        PRONOUNS["they"],
                        verb("live", "location"),
                        place=Prepositional("in", RelativeGap(noun("house"))),
                    ),
                ),
                BE,
                predicate=AdjectivePredicate(WORDS.adjectives["old"]),
            )
        ),
        "The house in which they live is old.",
        "Das Haus, in dem sie wohnen, ist alt.",
        "0-0 1-1 2-3 3-4 4-5 5-6 6-8 7-9 8-10",
    ),
    Case(
        "separable",
        Sentence(Clause(np("boy"), verb("open"), accusative=np("window"))),
        "The boy opens the window.",
        "Der Junge macht das Fenster auf.",
        "0-0 1-1 2-2 2-5 3-3 4-4 5-6",
    ),
    Case(
        "separable final",
        Sentence(
            Clause(
                name("Emma"), verb("know", "that"), complement=Clause(np("boy"), verb("open"), accusative=np("window"))
            )
        ),
        "Emma knows that the boy opens the window.",
        "Emma weiß, dass der Junge das Fenster aufmacht.",
        "0-0 1-1 2-3 3-4 4-5 5-8 6-6 7-7 8-9",
    ),
    Case(
        "separable to",
        Sentence(
            Clause(
                PRONOUNS["she"],
                verb("try", "to"),
                complement=Clause(PRONOUNS["she"], verb("open"), accusative=np("window")),
            )
        ),
        "She tries to open the window.",
        "Sie versucht, das Fenster aufzumachen.",
        "0-0 1-1 2-5 3-5 4-3 5-4 6-6",
    ),
    Case(
        "modal",
        Sentence(Clause(PRONOUNS["I"], verb("pick up"), "want", accusative=np("letter"))),
        "I want to pick up the letter.",
        "Ich will den Brief abholen.",
        "0-0 1-1 2-1 3-4 4-4 5-2 6-3 7-5",
    ),
    Case(
        "perfect",
        Sentence(Clause(np("bus"), verb("arrive", "intransitive"), "perfect", frequency=fixed("frequency", "already"))),
        "The bus has already arrived.",
        "Der Bus ist schon angekommen.",
        "0-0 1-1 2-2 3-3 4-4 5-5",
    ),
    Case(
        "nicht",
        Sentence(Clause(np("woman"), verb("buy"), negated=True, accusative=np("lamp"), time=fixed("time", "tomorrow"))),
        "The woman does not buy the lamp tomorrow.",
        "Die Frau kauft die Lampe morgen nicht.",
        "0-0 1-1 2-2 3-6 4-2 5-3 6-4 7-5 8-7",
    ),
    Case(
        "nicht place",
        Sentence(
            Clause(
                PRONOUNS["he"],
                verb("work", "intransitive"),
                "can",
                negated=True,
                place=Prepositional("at", np("station")),
            )
        ),
        "He cannot work at the station.",
        "Er kann nicht am Bahnhof arbeiten.",
        "0-0 1-1 1-2 2-5 3-3 4-3 5-4 6-6",
    ),
    Case(
        "kein",
        Sentence(Clause(np("farmer"), verb("need"), negated=True, accusative=np("tractor", "a"))),
        "The farmer does not need a tractor.",
        "Der Bauer braucht keinen Traktor.",
        "0-0 1-1 2-2 3-3 4-2 5-3 6-4 7-5",
    ),
    Case(
        "kein plural",
        Sentence(Clause(name("Max"), verb("eat"), "past", negated=True, accusative=np("nut", "", plural=True))),
        "Max did not eat nuts.",
        "Max hat keine Nüsse gegessen.",
        "0-0 1-1 2-2 3-4 4-3 5-5",
    ),
    Case(
        "compound",
        Sentence(
            Clause(
                np("table", "the", modifier=WORDS.modifiers["kitchen"]),
                BE,
                predicate=AdjectivePredicate(WORDS.adjectives["heavy"], fixed("degree", "very")),
            )
        ),
        "The kitchen table is very heavy.",
        "Der Küchentisch ist sehr schwer.",
        "0-0 1-1 2-1 3-2 4-3 5-4 6-5",
    ),
    Case(
        "number",
        Sentence(
            Clause(
                np("teacher", "the", modifier=WORDS.modifiers["music"]),
                verb("count"),
                accusative=np("goose", 21, plural=True),
            )
        ),
        "The music teacher counts twenty-one geese.",
        "Der Musiklehrer zählt einundzwanzig Gänse.",
        "0-0 1-1 2-1 3-2 4-3 5-4 6-5",
    ),
    Case(
        "weak noun",
        Sentence(Clause(np("doctor"), verb("ask"), "will", accusative=np("student", "this", "young"))),
        "The doctor will ask this young student.",
        "Der Arzt wird diesen jungen Studenten fragen.",
        "0-0 1-1 2-2 3-6 4-3 5-4 6-5 7-7",
    ),
    Case(
        "to city",
        Sentence(
            Clause(
                name("Julia"),
                verb("travel", "direction"),
                "past",
                direction=Prepositional("to city", Name(WORDS.invariables["city"]["Munich"])),
                partner=Prepositional("with", np("neighbour", "her")),
            )
        ),
        "Julia travelled to Munich with her neighbour.",
        "Julia ist mit ihrem Nachbarn nach München gereist.",
        "0-0 1-1 1-7 2-5 3-6 4-2 5-3 6-4 7-8",
    ),
    Case(
        "contraction",
        Sentence(Clause(np("cat"), verb("run", "direction"), direction=Prepositional("to", np("river")))),
        "The cat runs to the river.",
        "Die Katze läuft zum Fluss.",
        "0-0 1-1 2-2 3-3 4-3 5-4 6-5",
    ),
    Case(
        "question",
        Sentence(Clause(PRONOUNS["they"], verb("turn off"), accusative=np("radio")), question="yes"),
        "Do they turn off the radio?",
        "Machen sie das Radio aus?",
        "0-0 1-1 2-0 2-4 3-0 3-4 4-2 5-3 6-5",
    ),
    Case(
        "where",
        Sentence(Clause(np("queen"), verb("live", "location")), question="where"),
        "Where does the queen live?",
        "Wo wohnt die Königin?",
        "0-0 1-1 2-2 3-3 4-1 5-4",
    ),
    Case(
        "who",
        Sentence(Clause(WHO, verb("solve"), "past", accusative=np("riddle")), question="who"),
        "Who solved the riddle?",
        "Wer hat das Rätsel gelöst?",
        "0-0 1-1 1-4 2-2 3-3 4-5",
    ),
    Case(
        "comparative",
        Sentence(Clause(np("church"), BE, predicate=AdjectivePredicate(WORDS.adjectives["old"], than=np("castle")))),
        "The church is older than the castle.",
        "Die Kirche ist älter als das Schloss.",
        "0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7",
    ),
    Case(
        "age",
        Sentence(Clause(np("grandmother", "our"), BE, predicate=AgePredicate(83))),
        "Our grandmother is eighty-three years old.",
        "Unsere Großmutter ist dreiundachtzig Jahre alt.",
        "0-0 1-1 2-2 3-3 4-4 5-5 6-6",
    ),
    Case(
        "job",
        Sentence(Clause(name("Felix"), BE, "past", negated=True, predicate=np("gardener", "a", "good"))),
        "Felix was not a good gardener.",
        "Felix war kein guter Gärtner.",
        "0-0 1-1 2-2 3-2 4-3 5-4 6-5",
    ),
    Case(
        "weather",
        Sentence(
            Clause(PRONOUNS["we"], verb("stay", "location"), place=Prepositional("in", np("house"))),
            "because",
            Clause(PRONOUNS["it"], verb("rain", "weather")),
        ),
        "We stay in the house because it rains.",
        "Wir bleiben im Haus, weil es regnet.",
        "0-0 1-1 2-2 3-2 4-3 5-5 6-6 7-7 8-8",
    ),
    Case(
        "but",
        Sentence(
            Clause(np("train"), verb("depart", "intransitive"), "past"),
            "but",
            Clause(PRONOUNS["we"], verb("wait", "intransitive")),
        ),
        "The train departed, but we wait.",
        "Der Zug ist abgefahren, aber wir warten.",
        "0-0 1-1 2-2 2-3 3-4 4-5 5-6 6-7 7-8",
    ),
    Case(
        "early",
        Sentence(
            Clause(
                np("baker"),
                verb("teach", "ditransitive"),
                "may",
                dative=PRONOUNS["they"],
                accusative=np("song", "a"),
                time=8,
            )
        ),
        "The baker may teach them a song at eight o'clock.",
        "Der Bäcker darf ihnen um acht Uhr ein Lied beibringen.",
        "0-0 1-1 2-2 3-9 4-3 5-7 6-8 7-4 8-5 9-6 10-10",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_rule(case: Case) -> None:
    pair = render(case.tree)
    assert (pair.source, pair.target) == (case.english, case.german)
    assert " ".join(f"{i}-{j}" for i, j in pair.alignment) == case.alignment


@pytest.mark.parametrize(
    ("value", "english", "german"),
    [
        (2, "two", "zwei"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (76, "seventy-six", "sechsundsiebzig"),
    ],
)
def test_number(value: int, english: str, german: str) -> None:
    assert number_words(value) == (english, german)


@cache
def corpus(split: Split, count: int) -> list[AlignedPair]:
    return pocket.pairs(split, count)


def everything() -> Iterator[AlignedPair]:
    for split, count in (("train", 10_000), ("valid", 1_000), ("test", 1_000)):
        yield from corpus(split, count)


def test_same_everywhere() -> None:
    text = "\n".join(f"{pair.source}\t{pair.target}\t{pair.alignment}" for pair in corpus("train", 10_000)[:1000])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "69aa29f6442e312c"


def test_longer_runs_begin_alike_and_seeds_differ() -> None:
    assert pocket.pairs("valid", 20) == corpus("valid", 1_000)[:20]
    assert pocket.pairs("valid", 20, seed=1) != pocket.pairs("valid", 20)
    assert pocket.pairs("test", 0) == []


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="choose train, valid or test"):
        pocket.pairs("dev", 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="negative"):
        pocket.pairs("train", -1)


def test_translation_is_a_function_of_the_source() -> None:
    trees, targets = sampler.Sampler("function"), dict[str, str]()
    for _ in range(30_000):
        pair = render(trees.sentence())
        assert targets.setdefault(pair.source, pair.target) == pair.target


def test_only_two_verbs_leave_the_tense_open() -> None:
    """They have the same present and past in English, but not in German."""
    trees, verbs = sampler.Sampler("tense"), Counter[str]()
    for _ in range(10_000):
        sentence = trees.sentence()
        tense = {"present": "past", "past": "present"}.get(sentence.main.tense)
        if tense:
            other = replace(sentence, main=replace(sentence.main, tense=tense))
            verbs[sentence.main.verb.base] += render(sentence).source == render(other).source
    assert (+verbs).keys() == {"read", "put on"} and 0.001 < verbs.total() / 10_000 < 0.01


def test_sentences_are_different_and_in_one_split() -> None:
    sources = [pair.source for pair in everything()]
    assert len(sources) == len(set(sources)) == 12_000


def test_splits_hold_out_combinations() -> None:
    """A training sentence has no combination of valid or test; their sentences have at least one of their own."""
    trees = sampler.Sampler("combinations")
    seen: dict[Split | None, set[tuple[str, str, str]]] = {"train": set(), "valid": set(), "test": set()}
    for _ in range(10_000):
        sentence = trees.sentence()
        split = pocket.split_of(sentence)
        used = set(sampler.combinations(sentence))
        if split is not None:
            seen[split] |= used
        if split in ("valid", "test"):
            assert any(sampler.split_of_combination(combination) == split for combination in used)
    for split in get_args(Split)[1:]:
        own_combinations = {
            combination for combination in seen[split] if sampler.split_of_combination(combination) == split
        }
        assert len(own_combinations) > 100 and {kind for kind, _, _ in own_combinations} == {
            "object",
            "adjective",
            "compound",
        }
        assert (
            not own_combinations & seen["train"] and not own_combinations & seen["valid" if split == "test" else "test"]
        )


def test_combinations_of_a_tree() -> None:
    relative = Clause(np("woman", "the", "old"), verb("buy"), accusative=RelativeGap(noun("lamp")))
    lamp = np("lamp", "a", "red", modifier=WORDS.modifiers["garden"], relative=relative)
    tree = Sentence(
        Clause(name("Anna"), verb("need"), accusative=lamp, place=Prepositional("in", np("park", "the", "quiet")))
    )
    assert set(sampler.combinations(tree)) == {
        ("object", "need", "lamp"),
        ("adjective", "red", "lamp"),
        ("compound", "garden", "lamp"),
        ("object", "buy", "lamp"),
        ("adjective", "old", "woman"),
        ("adjective", "quiet", "park"),
    }


def test_every_english_word_of_the_test_is_common_in_training() -> None:
    counts: dict[str, int] = {}
    for pair in corpus("train", 10_000):
        for word in pair.source_words:
            counts[word.lower()] = counts.get(word.lower(), 0) + 1
    used = [word.lower() for pair in corpus("test", 1_000) for word in pair.source_words]
    assert sum(counts.get(word, 0) < 5 for word in used) < len(used) / 100


def test_alignment_covers_all_but_german_commas() -> None:
    for pair in everything():
        assert list(pair.alignment) == sorted(set(pair.alignment))
        left, right = {i for i, _ in pair.alignment}, {j for _, j in pair.alignment}
        assert left == set(range(len(pair.source_words)))
        assert right <= set(range(len(pair.target_words)))
        assert all(pair.target_words[j] == "," for j in set(range(len(pair.target_words))) - right)


def test_text_is_tidy() -> None:
    for pair in everything():
        for text, words in ((pair.source, pair.source_words), (pair.target, pair.target_words)):
            assert text[0].isupper() and text[-1] in ".?" and "  " not in text and ",," not in text
            assert re.sub(r" ([,.?])", r"\1", " ".join(words)) == text
            assert re.fullmatch(r"[A-Za-zÄÖÜäöüß' ,.?-]+", text), text
            assert 3 <= len(words) <= sampler.MAX_WORDS


def test_german_spelling() -> None:
    """Nouns have capitals, clauses their commas, and articles melt into prepositions except before relative clauses."""
    nouns = {form.lower() for n in WORDS.nouns.values() for form in (n.german, n.german_oblique, n.german_plural)}
    nouns -= {form for v in WORDS.verbs.values() for form in (v.infinitive, v.infinitive[:-1])} | {
        "arm",
        "junge",
        "jungen",
    }
    opening = {"dass", "weil", "obwohl", "wenn", "bevor", "während"}
    for pair in everything():
        words = pair.target_words
        for before, word in pairwise(words):
            assert word[0].isupper() or word not in nouns, pair.target
            assert before == "," or word not in opening, pair.target
        for match in re.finditer(r"\b(in dem|an dem|zu dem|zu der|in das)\b", pair.target):
            assert pair.target[: match.start()].endswith(", "), pair.target


def test_lexicon() -> None:
    assert pocket.count_lemmas() > 500
    for word in WORDS.nouns.values():
        assert word.gender in ("der", "die", "das") and word.german[0].isupper() and word.kinds
        assert (word.english_plural == "-") == (word.german_plural == "-")
    for item in WORDS.verbs.values():
        assert item.auxiliary in ("haben", "sein") and item.infinitive.endswith("n")
        assert item.german_participle.startswith(item.prefix)
    for kind in WORDS.invariables.values():
        assert all(len(item.english.split()) == len(item.german.split()) for item in kind.values())
    for adjective in (*WORDS.adjectives.values(), *WORDS.colours.values()):
        assert any(sampler.nouns_of(*adjective.kinds))


def test_language_size() -> None:
    assert pocket.language_size() >= 10**8


def test_language_size_counts_different_sentences() -> None:
    """Its argument: no word of a subject is a form of a transitive verb, so the verb marks where the object begins."""
    subjects = {word for n in sampler.nouns_of("person", "animal") for word in n.english.split()}
    subjects |= set(WORDS.adjectives) | {"the", "a", "an", *POSSESSIVES}
    assert not subjects & {v.present.split()[0] for v in sampler.verbs_of("accusative")}
