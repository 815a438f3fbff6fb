"""The embedded corpus: English-German sentence pairs with gold word alignment, made by a grammar, not downloaded.

The grammar is `pocket_grammar.py`: it says a tree in both languages at once. Here a `Chooser` grows random trees, and
`pairs` deals them out. What is frequent and what is rare stands in `WEIGHTS` and `CHANCES`.

The translation is a function of the English sentence: no English sentence has two German ones, so a perfect model
reaches 100 BLEU. Hence no "you", no ambiguous words, and only word orders that can be read in one way.

*The splits.* A hash deals out three sorts of combinations: verb and object, adjective and noun, first and second part
of a compound. 90 % go to training, 5 % to validation, 5 % to test. Training sentences use training's combinations only;
a test sentence uses at least one of test's and none of validation's, and the other way round. So no sentence is in two
splits, and each test sentence puts common words together as training never did.
"""

from __future__ import annotations

import hashlib
import random
from bisect import bisect
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, islice
from typing import Literal, TypeVar, get_args

from transformer.data.pocket.grammar import (
    BE,
    CONJUNCTIONS,
    DEFINITE,
    DETERMINERS,
    MODALS,
    POSSESSIVES,
    PREPOSITIONS,
    PRONOUNS,
    QUESTIONS,
    WHO,
    Adjective,
    Age,
    Both,
    Clause,
    First,
    Fixed,
    Name,
    Nominal,
    Noun,
    NounPhrase,
    Pair,
    Prepositional,
    Quality,
    Relative,
    Sentence,
    Verb,
    lexicon,
    say,
)

__all__ = ["Pair", "Split", "count_lemmas", "generate", "language_size", "pairs"]

T = TypeVar("T")
Split = Literal["train", "valid", "test"]

# What chance decides. Each line is one choice and the weights of its outcomes.
WEIGHTS: dict[str, dict[str, float]] = {
    "sentence": {"simple": 72, "and": 2, "but": 2, "subordinate": 7, "fronted": 6, "that": 4, "to": 3, "question": 4},
    "conjunction now": {"because": 4, "although": 3, "if": 4, "while": 2, "before": 1},
    "conjunction past": {"because": 4, "although": 3, "when": 4, "while": 2, "before": 1},
    "question": {"yes": 5, "where": 2, "when": 1, "why": 2, "who": 2},
    "period": {"now": 6, "past": 4},
    "now": {"present": 60, "perfect": 12, "will": 7, "can": 5, "must": 5, "want": 5, "should": 4, "may": 3},
    "past": {"past": 80, "could": 7, "wanted": 7, "had": 6},
    "frame": {
        "accusative": 58,
        "dative": 8,
        "ditransitive": 8,
        "intransitive": 14,
        "direction": 10,
        "location": 4,
        "be": 18,
        "weather": 1,
    },
    "predicate": {"quality": 60, "than": 12, "job": 10, "age": 7, "place": 8},
    "subject": {"phrase": 72, "pronoun": 16, "name": 10, "both": 2},
    "object": {"phrase": 86, "pronoun": 7, "name": 7},
    "any": {"the": 40, "a": 22, "my": 14, "this": 5, "every": 3, "no": 2, "": 8, "many": 4, "some": 4, "number": 6},
    "known": {"the": 40, "my": 12, "this": 5},
    "new": {"a": 1},
    "place": {"in": 7, "at": 2, "on": 2, "city": 1},
    "time": {"time": 5, "habit": 4, "clock": 1, "event": 1},
    "kind": {"thing": 3, "furniture": 4, "clothes": 1.5, "food": 2, "drink": 1.5},
    "relative": {"subject": 5, "object": 4, "place": 1},
}
# How often a part is there at all, where the grammar has room for it.
CHANCES = {
    "plural": 0.28,
    "adjective": 0.34,
    "colour": 0.12,
    "compound": 0.5,
    "degree": 0.12,
    "relative": 0.06,
    "negated": 0.14,
    "time": 0.16,
    "place": 0.16,
    "partner": 0.2,
    "manner": 0.12,
    "frequency": 0.12,
    "opener": 0.05,
    "front": 0.35,
    "large number": 0.3,
    "described person": 0.25,
    "dative relative": 0.3,
}
LONGEST = 18  # words of a sentence, on either side


# ------------------------------------------------------------------------------------------- which words go together


@cache
def nouns_of(*kinds: str) -> tuple[Noun, ...]:
    """The nouns of any of these kinds."""
    return tuple(noun for noun in lexicon().nouns.values() if not set(kinds).isdisjoint(noun.kinds))


@cache
def outcomes(choice: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The outcomes of a choice in WEIGHTS, and the running sums of their weights."""
    return tuple(WEIGHTS[choice]), tuple(accumulate(WEIGHTS[choice].values()))


@cache
def running_sums(kinds: tuple[str, ...]) -> tuple[float, ...]:
    """The running sums of the weights of kinds of nouns."""
    return tuple(accumulate(WEIGHTS["kind"].get(kind, 1) for kind in kinds))


@cache
def firsts_of(noun: Noun) -> tuple[First, ...]:
    """The first parts of the compounds that end in a noun."""
    return tuple(first for first in lexicon().firsts.values() if "+" + first.group in noun.kinds)


@cache
def adjectives_of(noun: Noun, which: Literal["any", "comparative", "colour"] = "any") -> tuple[Adjective, ...]:
    """The adjectives that can describe a noun; only those that can be compared; or its colours."""
    words = (lexicon().colours if which == "colour" else lexicon().adjectives).values()
    found = (a for a in words if not set(a.kinds).isdisjoint(noun.kinds))
    return tuple(a for a in found if which != "comparative" or a.english_comparative != "-")


@cache
def verbs_of(frame: str, subject: Noun | None = None, accusative: Noun | None = None) -> tuple[Verb, ...]:
    """The verbs of a frame that suit a subject and an object."""
    return tuple(
        verb
        for verb in lexicon().verbs.values()
        if verb.frame == frame
        and (subject is None or not set(verb.subjects).isdisjoint(subject.kinds))
        and (accusative is None or not set(verb.objects).isdisjoint(accusative.kinds))
    )


@cache
def fixed_of(kind: str, when: str = "") -> tuple[Fixed, ...]:
    """The adverbs of a kind that suit a time; or names."""
    return tuple(item for item in lexicon().fixed[kind].values() if not when or when in item.when)


@cache
def things() -> tuple[Noun, ...]:
    """The nouns, people apart, that several adjectives can describe."""
    return tuple(n for n in lexicon().nouns.values() if "person" not in n.kinds and len(adjectives_of(n)) > 2)


def described(item: Nominal) -> Noun:
    """The noun whose adjectives and verbs suit a nominal; names and pronouns are people."""
    return item.noun if isinstance(item, (NounPhrase, Relative)) else lexicon().nouns["man"]


def gender_of(item: Nominal) -> str:
    """A person's gender, where the German words show it."""
    if isinstance(item, Name):
        return item.name.when[0]
    return item.noun.gender if isinstance(item, (NounPhrase, Relative)) and "person" in item.noun.kinds else ""


def period_of(tense: str) -> str:
    """Which adverbs of time suit a tense: now, past, perfect or future."""
    if tense in MODALS:
        return "past" if MODALS[tense].past else "future"
    return {"present": "now"}.get(tense, tense)


def may_negate(item: Clause) -> bool:
    """Only where "not" can mean one thing: not beside every, many, a number ..., nor with must and may."""
    phrases = (x for x in (item.subject, item.dative, item.accusative) if isinstance(x, NounPhrase))
    known = all(x.determiner in ("a", *DEFINITE) or x is item.accusative and not x.determiner for x in phrases)
    return known and item.tense not in ("must", "may")


# ------------------------------------------------------------------------------------------- random trees


class Chooser:
    """Grows random trees. Of `random.Random` it uses only `random()`, which is the same everywhere and stays so."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed).random

    def chance(self, name: str) -> bool:
        """Whether a part of CHANCES is there."""
        return self.random() < CHANCES[name]

    def one(self, items: Sequence[T]) -> T:
        """One of several, all equally likely."""
        return items[int(self.random() * len(items))]

    def weighted(self, name: str) -> str:
        """One outcome of a choice in WEIGHTS."""
        keys, sums = outcomes(name)
        return keys[bisect(sums, self.random() * sums[-1])]

    # Things and people.

    def kind(self, kinds: tuple[str, ...]) -> str:
        """One of the kinds of things that suit a verb."""
        sums = running_sums(kinds)
        return kinds[bisect(sums, self.random() * sums[-1])]

    def noun(self, kinds: tuple[str, ...]) -> Noun:
        """A noun of one of the kinds."""
        return self.one(nouns_of(self.kind(kinds)))

    def noun_phrase(
        self, noun: Noun, determiners: str = "any", relative: bool = False, plain: bool = False, plural: bool = True
    ) -> NounPhrase:
        """A phrase around a noun. `plain`: no adjectives; `relative`, `plural`: whether it may be so."""
        item = NounPhrase(noun, *self.determiner(noun, determiners, plural))
        if firsts_of(noun) and self.chance("compound"):
            item.first = self.one(firsts_of(noun))
        if plain:
            return item
        if adjectives_of(noun) and self.chance("adjective"):
            item.adjectives = (self.one(adjectives_of(noun)),)
            if self.chance("degree"):
                item.degree = self.one(fixed_of("degree", "attribute"))
        if adjectives_of(noun, "colour") and self.chance("colour"):
            item.adjectives += (self.one(adjectives_of(noun, "colour")),)
        if relative and self.chance("relative"):
            item.relative = self.relative_clause(item)
            if item.relative.verb is BE:  # no "old man who is old"
                item.adjectives, item.degree = (), None
        return item

    def determiner(self, noun: Noun, determiners: str, plural: bool) -> tuple[str | int, bool]:
        """A determiner and whether the noun is in the plural."""
        choice = self.weighted(determiners)
        plural, mass = plural and self.chance("plural"), noun.english_plural == "-"
        if choice == "my":
            public = "own" not in noun.kinds and not {"person", "animal", "building", "area"}.isdisjoint(noun.kinds)
            choice = "the" if public else self.one(POSSESSIVES)
            plural = plural and "single" not in noun.kinds
        if choice == "" and "person" in noun.kinds:
            choice = "the"
        if mass:
            return (choice if choice in DETERMINERS and choice not in ("a", "every", "many", "some") else ""), False
        if choice == "number":
            countable = not {"food", "text", "thing", "animal"}.isdisjoint(noun.kinds) and self.chance("large number")
            return 2 + int(self.random() * (98 if countable else 11)), True
        return choice, choice in ("", "many", "some") or plural and choice not in ("a", "every")

    def subject(self, kinds: tuple[str, ...], plain: bool = False) -> Nominal:
        """Who does something."""
        choice = self.weighted("subject") if "person" in kinds else "phrase"
        if choice == "pronoun":
            return PRONOUNS[self.one(("I", "he", "she", "we", "they"))]
        if choice == "name":
            return Name(self.one(fixed_of("name")))
        if choice == "both":
            names = fixed_of("name")
            first = int(self.random() * len(names))
            second = (first + 1 + int(self.random() * (len(names) - 1))) % len(names)
            return Both(Name(names[first]), Name(names[second]))
        return self.noun_phrase(self.noun(kinds), relative=not plain, plain=plain)

    def object(self, kinds: tuple[str, ...], determiners: str = "any", relative: bool = False) -> Nominal:
        """Whom or what something is done to."""
        kind = self.kind(kinds)
        choice = self.weighted("object") if kind == "person" else "phrase"
        if choice == "pronoun":
            return PRONOUNS[self.one(("he", "she", "they"))]
        if choice == "name":
            return Name(self.one(fixed_of("name")))
        return self.noun_phrase(self.noun((kind,)), determiners, relative)

    def where(self) -> Prepositional:
        """A place."""
        preposition = self.weighted("place")
        if preposition == "city":
            return Prepositional("in", Name(self.one(fixed_of("city"))))
        return Prepositional(preposition, self.noun_phrase(self.noun((preposition,)), "known", plural=False))

    def whither(self, verb: Verb) -> Prepositional:
        """The direction of a verb of motion."""
        preposition = self.one(verb.objects)
        if preposition == "city":
            return Prepositional("to city", Name(self.one(fixed_of("city"))))
        kinds = {"out": ("in",), "into": ("in",), "onto": ("on",), "to": ("building", "area")}[preposition]
        item = self.noun_phrase(self.one(nouns_of(*kinds)), "known", plural=False)
        return Prepositional("out of" if preposition == "out" else preposition, item)

    def when(self, period: str) -> Fixed | Prepositional | int:
        """An adverb of time, an hour, or before or after some event."""
        choice = self.weighted("time")
        if choice == "clock":
            return 2 + int(self.random() * 11)
        if choice == "event" and period != "now":
            event = self.noun_phrase(self.noun(("event",)), "known", plain=True, plural=False)
            return Prepositional(self.one(("before", "after")), event)
        return self.one(fixed_of("time", period if choice == "time" else "habit"))

    # Clauses.

    def clause(self, tense: str, subject: Nominal | None = None, plain: bool = False) -> Clause:
        """A clause; `plain`: nothing in it that could be left out."""
        frame = self.weighted("frame")
        if frame == "weather" and subject is None:
            return Clause(PRONOUNS["it"], self.one(verbs_of(frame)), self.calm(tense))
        verbs = verbs_of(frame, described(subject)) if subject else verbs_of(frame)
        if not verbs:
            return self.state(tense, subject, plain)
        verb = self.one(verbs)
        if "state" in verb.extras:
            tense = "past" if period_of(tense) == "past" else "present"
        item = Clause(subject or self.subject(verb.subjects, plain), verb, tense)
        self.complete(item, relative=not plain)
        self.adorn(item, plain)
        return item

    def complete(self, item: Clause, relative: bool = False) -> None:
        """Add what the verb needs."""
        verb = item.verb
        if verb.frame == "accusative":
            item.accusative = self.object(verb.objects, relative=relative)
        elif verb.frame == "dative":
            item.dative = self.object(verb.objects, relative=relative)
        elif verb.frame == "ditransitive":
            item.dative = self.object(("person",), "known")
            item.accusative = self.noun_phrase(self.noun(verb.objects), relative=relative)
        elif verb.frame == "direction":
            item.direction = self.whither(verb)
        elif verb.frame == "location":
            item.place = self.where()

    def adorn(self, item: Clause, plain: bool = False) -> None:
        """Add negation and adverbs; but none after an object's relative clause, where they would seem to belong."""
        extras, period = item.verb.extras, period_of(item.tense)
        if may_negate(item) and self.chance("negated"):
            item.negated = True
        phrases = [x for x in (item.subject, item.dative, item.accusative) if isinstance(x, NounPhrase)]
        denials = [x for x in phrases if x.determiner == "no"]
        for other in denials[1:]:  # one "no" is enough
            other.determiner = "the"
        denied = item.negated or bool(denials)
        if not denied and fixed_of("frequency", item.tense) and self.chance("frequency"):
            item.frequency = self.one(fixed_of("frequency", item.tense))
        if plain or any(x.relative for x in phrases if x is not item.subject):
            return
        if "manner" in extras and not denied and self.chance("manner"):
            item.manner = self.one(fixed_of("manner"))
        if ("with" in extras or "for" in extras) and self.chance("partner"):
            item.partner = Prepositional("with" if "with" in extras else "for", self.object(("person",), "known"))
        if "place" in extras and self.chance("place"):
            item.place = self.where()
        if period != "perfect" and "state" not in extras and self.chance("time"):
            item.time = self.one(fixed_of("time", "habit")) if item.frequency or denied else self.when(period)

    def calm(self, tense: str) -> str:
        """A tense that suits the weather and states: no perfect and few modals."""
        if tense in ("present", "past", "will", "must"):
            return tense
        return "past" if period_of(tense) == "past" else "present"

    def state(self, tense: str, subject: Nominal | None, plain: bool) -> Clause:
        """Somebody is old, older than somebody, a teacher, forty years old, or somewhere; something is so too."""
        choice, tense = self.weighted("predicate"), self.calm(tense)
        if subject is None:
            if choice in ("job", "age", "place") or self.chance("described person"):
                subject = self.subject(("person",), plain)
            else:
                subject = self.noun_phrase(self.one(things()), relative=not plain)
        noun, item = described(subject), Clause(subject, BE, tense)
        item.negated = may_negate(item) and self.chance("negated")
        said = subject.adjectives if isinstance(subject, NounPhrase) else ()
        rivals = nouns_of(noun.kinds[0]) if choice == "than" else ()
        if choice == "job" and subject.person == 1 and gender_of(subject) in ("der", "die"):
            jobs = [job for job in nouns_of("job") if job.gender == gender_of(subject) and job is not noun]
            item.predicate = self.noun_phrase(self.one(jobs), "new")
        elif choice == "age" and "person" in noun.kinds and subject is not WHO:
            item.predicate = Age(2 + int(self.random() * 11) if "young" in noun.kinds else 18 + int(self.random() * 82))
        elif choice == "place" and "person" in noun.kinds:
            item.place = self.where()
        elif len(rivals) > 1 and adjectives_of(noun, "comparative"):
            rival, adjective = self.one(rivals), self.one(adjectives_of(noun, "comparative"))
            item.predicate = Quality(adjective, than=self.noun_phrase(rival, "known", plain=True))
        else:
            adjective = self.one([a for a in adjectives_of(noun) if a not in said])
            item.predicate = Quality(adjective, self.one(fixed_of("degree")) if self.chance("degree") else None)
        return item

    def relative_clause(self, head: NounPhrase) -> Clause:
        """A short clause about a noun: who reads the book, that the woman buys, in which the man works."""
        noun, gap = head.noun, Relative(head.noun, head.plural)
        tense, choice = self.one(("present", "present", "past")), self.weighted("relative")
        people = lexicon().nouns["man"]
        person = "person" in noun.kinds
        if choice == "subject":
            return self.clause(tense, gap, plain=True)
        item = Clause(self.subject(("person",), plain=True), BE, tense)
        if choice == "place" and (person or "in" in noun.kinds):
            extra = "with" if person else "place"
            item.verb = self.one([verb for verb in verbs_of("intransitive", people) if extra in verb.extras])
            item.partner = Prepositional("with", gap) if person else None
            item.place = None if person else Prepositional("in", gap)
        elif person and self.chance("dative relative"):
            item.verb, item.dative = self.one(verbs_of("dative", people)), gap
        elif verbs_of("accusative", people, noun):
            item.verb, item.accusative = self.one(verbs_of("accusative", people, noun)), gap
        else:
            return self.clause(tense, gap, plain=True)
        return item

    # Sentences.

    def sentence(self) -> Sentence:
        """A whole tree."""
        period, kind = self.weighted("period"), self.weighted("sentence")
        tense = self.weighted(period)
        if kind == "simple":
            return Sentence(self.in_front(self.clause(tense)))
        if kind == "question":
            return self.question(tense)
        if kind in ("that", "to"):
            verb = self.one(verbs_of(kind))
            main = Clause(self.subject(verb.subjects), verb, "past" if period == "past" else "present")
            self.adorn(main, plain=True)
            main.complement = self.clause(tense) if kind == "that" else self.infinitive(main.subject)
            return Sentence(main)
        if kind in ("and", "but"):
            return Sentence(self.in_front(self.clause(tense)), kind, self.clause(self.weighted(period)))
        # No "he has come if he will go", nor "before she never sings".
        conjunction, second = self.weighted("conjunction " + period), self.weighted(period)
        main = self.clause("present" if tense == "perfect" else tense)
        other = self.clause("present" if second in ("perfect", "will") else second)
        if conjunction == "before":
            other.negated, other.frequency = False, None
        if kind == "fronted":
            return Sentence(main, conjunction, other, fronted=True)
        return Sentence(self.in_front(main), conjunction, other)

    def infinitive(self, subject: Nominal) -> Clause:
        """What somebody tries to do."""
        frame = self.one(("accusative", "accusative", "dative", "ditransitive", "intransitive", "direction"))
        item = Clause(subject, self.one(verbs_of(frame, lexicon().nouns["man"])))
        self.complete(item, relative=True)
        self.adorn(item)
        item.negated, item.frequency, item.tense = False, None, "present"
        return item

    def in_front(self, item: Clause) -> Clause:
        """Perhaps an adverbial in front of a main clause, which makes German turn subject and verb round."""
        if item.frequency is None and self.chance("opener"):
            item.opener, item.front = self.one(fixed_of("opener", period_of(item.tense))), "opener"
        elif item.time is not None and self.chance("front"):
            item.front = "time"
        elif item.place is not None and item.verb is not BE and self.chance("front"):
            item.front = "place"
        return item

    def question(self, tense: str) -> Sentence:
        """Yes or no? Who, where, when, why?"""
        kind = self.weighted("question")
        item = self.clause(tense, WHO if kind == "who" else None)
        item.negated, item.frequency = False, None
        if kind == "where" and (item.direction or item.verb is BE and item.place is None):
            kind = "yes"
        elif kind == "where":
            item.place = None
        elif kind == "when":
            item.time = None
        return Sentence(item, question=kind)


# ------------------------------------------------------------------------------------------- the splits


def combinations(node: object) -> Iterator[tuple[str, str, str]]:
    """The (verb, object), (adjective, noun) and (first, second part of a compound) in a tree."""
    if isinstance(node, NounPhrase):
        for adjective in node.adjectives:
            yield "adjective", adjective.english, node.noun.english
        if node.first:
            yield "compound", node.first.english, node.noun.english
        if node.relative:
            yield from combinations(node.relative)
    elif isinstance(node, Clause):
        for item in (node.dative, node.accusative):
            if isinstance(item, (NounPhrase, Relative)):
                yield "object", node.verb.base, item.noun.english
        if isinstance(node.predicate, Quality) and isinstance(node.subject, (NounPhrase, Relative)):
            yield "adjective", node.predicate.adjective.english, node.subject.noun.english
        for part in vars(node).values():
            if isinstance(part, (NounPhrase, Clause, Prepositional, Quality)):
                yield from combinations(part)
    elif isinstance(node, Prepositional):
        yield from combinations(node.nominal)
    elif isinstance(node, Quality):
        yield from combinations(node.than)
    elif isinstance(node, Sentence):
        yield from combinations(node.main)
        yield from combinations(node.other)


@cache
def owner(combination: tuple[str, str, str]) -> Split:
    """The split that owns a combination: a hash deals 5 % each to test and valid, the rest to train."""
    digest = hashlib.sha256(" ".join(combination).encode()).digest()
    lot = int.from_bytes(digest[:4], "big") % 20
    return "test" if lot == 0 else "valid" if lot == 1 else "train"


def split_of(sentence: Sentence) -> Split | None:
    """The split that a sentence belongs to; none if it has combinations both of valid and of test."""
    owners = {owner(combination) for combination in combinations(sentence)} - {"train"}
    return None if len(owners) > 1 else owners.pop() if owners else "train"


def pairs(split: Split, count: int, seed: int = 0) -> list[Pair]:
    """The first `count` sentence pairs of a split: all different, and the same wherever they are made.

    Raises ValueError for an unknown split or a negative count.
    """
    if count < 0:
        raise ValueError(f"count must not be negative: {count}")
    return list(islice(generate(split, seed), count))


def generate(split: Split, seed: int = 0) -> Iterator[Pair]:
    """The sentence pairs of a split, one after the other, as many as are asked for; all different, as in `pairs`.

    Raises ValueError for an unknown split.
    """
    if split not in get_args(Split):
        raise ValueError(f"unknown split {split!r}: choose train, valid or test")
    return _all_different(split, Chooser(f"pocket {split} {seed}"))


def _all_different(split: Split, chooser: Chooser) -> Iterator[Pair]:
    seen: set[str] = set()
    while True:
        sentence = chooser.sentence()
        if split_of(sentence) == split:
            pair = say(sentence)
            if max(len(pair.source_words), len(pair.target_words)) <= LONGEST and pair.source not in seen:
                seen.add(pair.source)
                yield pair


def count_lemmas() -> int:
    """How many lexemes the grammar knows: the lexicon's, and the function words in the tables of the grammar."""
    words = lexicon()
    content = [*words.nouns, *words.firsts, *words.adjectives, *words.colours, *words.verbs]
    adverbs = [english for kind in words.fixed.values() for english in kind]
    function = [*DETERMINERS, *PRONOUNS, *PREPOSITIONS, *MODALS, *CONJUNCTIONS, *QUESTIONS]
    return len(content) + len(adverbs) + len(function)


def language_size() -> int:
    """A lower bound for the number of different pairs: it counts only sentences like "The young man reads an old book."

    They are: the, a or a possessive; an adjective or none; a noun in the singular; a transitive verb in the present; an
    object of the same shape. The verb shows where the subject ends, so no two of them are the same.
    """

    def phrases(kinds: Sequence[str]) -> int:
        nouns = [noun for noun in nouns_of(*kinds) if noun.english_plural != "-"]
        return sum((2 + ("own" in noun.kinds) * len(POSSESSIVES)) * (1 + len(adjectives_of(noun))) for noun in nouns)

    return sum(phrases(verb.subjects) * phrases(verb.objects) for verb in verbs_of("accusative"))
