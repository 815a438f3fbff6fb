"""The pocket corpus: English-German sentence pairs with gold word alignments, generated at random from a grammar.

A `Sampler` draws random syntax trees, with the frequencies in ``WEIGHTS`` and ``PROBABILITIES``; ``grammar.py`` renders
each tree in both languages; `pairs` assigns them to splits.

An English sentence has one German translation, so a perfect model reaches nearly 100 BLEU. That is why there is no
"you", and no word order is ambiguous. There is one exception: *read* and *put on* have the same present and past, which
leaves the German tense open in about one sentence of 250.

*Splits.* A hash assigns every combination of verb and object, of adjective and noun, and of the two parts of a compound
to a split: 90 % to training, 5 % to validation and 5 % to test. Training sentences contain only training combinations.
A test sentence contains at least one test combination and no validation combination, and vice versa. So no sentence is
in two splits, and every test sentence combines common words in a way that never occurs in training (compositional
generalisation).
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
    AdjectivePredicate,
    AgePredicate,
    AlignedPair,
    Clause,
    CompoundModifier,
    Coordination,
    Invariable,
    Name,
    Nominal,
    Noun,
    NounPhrase,
    Prepositional,
    RelativeGap,
    Sentence,
    Verb,
    lexicon,
    render,
)

__all__ = ["AlignedPair", "Split", "count_lemmas", "generate", "language_size", "pairs"]

T = TypeVar("T")
Split = Literal["train", "valid", "test"]

# The relative frequencies of the outcomes of each random choice.
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
# The probability of each optional part.
PROBABILITIES = {
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
MAX_WORDS = 18  # of a sentence, on either side, with punctuation marks


# ------------------------------------------------------------------------------------------- which words go together


@cache
def nouns_of(*kinds: str) -> tuple[Noun, ...]:
    """All nouns of any of these kinds."""
    return tuple(noun for noun in lexicon().nouns.values() if not set(kinds).isdisjoint(noun.kinds))


@cache
def cumulative_weights(choice: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The outcomes of a choice in WEIGHTS, and the cumulative sums of their weights."""
    return tuple(WEIGHTS[choice]), tuple(accumulate(WEIGHTS[choice].values()))


@cache
def cumulative_kind_weights(kinds: tuple[str, ...]) -> tuple[float, ...]:
    """The cumulative sums of the weights of these kinds of nouns."""
    return tuple(accumulate(WEIGHTS["kind"].get(kind, 1) for kind in kinds))


@cache
def modifiers_of(noun: Noun) -> tuple[CompoundModifier, ...]:
    """The first parts of compounds that end in this noun."""
    return tuple(first for first in lexicon().modifiers.values() if "+" + first.group in noun.kinds)


@cache
def adjectives_of(noun: Noun, which: Literal["any", "comparative", "colour"] = "any") -> tuple[Adjective, ...]:
    """The adjectives that fit a noun: all of them, only those with a comparative, or the colours."""
    words = (lexicon().colours if which == "colour" else lexicon().adjectives).values()
    fitting = (a for a in words if not set(a.kinds).isdisjoint(noun.kinds))
    return tuple(a for a in fitting if which != "comparative" or a.english_comparative != "-")


@cache
def verbs_of(frame: str, subject: Noun | None = None, accusative: Noun | None = None) -> tuple[Verb, ...]:
    """The verbs of a frame that fit a subject and an object."""
    return tuple(
        verb
        for verb in lexicon().verbs.values()
        if verb.frame == frame
        and (subject is None or not set(verb.subject_kinds).isdisjoint(subject.kinds))
        and (accusative is None or not set(verb.object_kinds).isdisjoint(accusative.kinds))
    )


@cache
def invariables_of(kind: str, tag: str = "") -> tuple[Invariable, ...]:
    """The adverbs or names of a kind; `tag`: only those that have it, such as those that fit a tense."""
    return tuple(item for item in lexicon().invariables[kind].values() if not tag or tag in item.tags)


@cache
def describable_nouns() -> tuple[Noun, ...]:
    """The nouns, other than people, that fit several adjectives."""
    return tuple(n for n in lexicon().nouns.values() if "person" not in n.kinds and len(adjectives_of(n)) > 2)


def head_noun(nominal: Nominal) -> Noun:
    """The noun that determines which adjectives and verbs fit; for names and pronouns "man"."""
    return nominal.noun if isinstance(nominal, (NounPhrase, RelativeGap)) else lexicon().nouns["man"]


def gender_of(nominal: Nominal) -> str:
    """The gender of a person, if the German words show it."""
    if isinstance(nominal, Name):
        return nominal.name.tags[0]
    if isinstance(nominal, (NounPhrase, RelativeGap)) and "person" in nominal.noun.kinds:
        return nominal.noun.gender
    return ""


def period_of(tense: str) -> str:
    """Which adverbs of time fit a tense: now, past, perfect or future."""
    if tense in MODALS:
        return "past" if MODALS[tense].past else "future"
    return {"present": "now"}.get(tense, tense)


def may_negate(clause: Clause) -> bool:
    """Whether "not" would be unambiguous: not with every, many, a number ..., and not with must and may."""
    phrases = (x for x in (clause.subject, clause.dative, clause.accusative) if isinstance(x, NounPhrase))
    unambiguous = all(x.determiner in ("a", *DEFINITE) or x is clause.accusative and not x.determiner for x in phrases)
    return unambiguous and clause.tense not in ("must", "may")


# ------------------------------------------------------------------------------------------- random trees


class Sampler:
    """Draw random syntax trees. Only `random.Random.random` is used, which is stable across versions of Python."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed).random

    def decide(self, name: str) -> bool:
        """Decide at random whether to include a part, with its probability in PROBABILITIES."""
        return self.random() < PROBABILITIES[name]

    def choose(self, items: Sequence[T]) -> T:
        """Choose one item, with equal probabilities."""
        return items[int(self.random() * len(items))]

    def choose_weighted(self, name: str) -> str:
        """Choose an outcome, with its weight in WEIGHTS."""
        keys, sums = cumulative_weights(name)
        return keys[bisect(sums, self.random() * sums[-1])]

    # Noun phrases.

    def choose_kind(self, kinds: tuple[str, ...]) -> str:
        """Choose one of these kinds of nouns."""
        sums = cumulative_kind_weights(kinds)
        return kinds[bisect(sums, self.random() * sums[-1])]

    def choose_noun(self, kinds: tuple[str, ...]) -> Noun:
        """Choose a noun of one of these kinds."""
        return self.choose(nouns_of(self.choose_kind(kinds)))

    def noun_phrase(
        self, noun: Noun, determiners: str = "any", relative: bool = False, plain: bool = False, plural: bool = True
    ) -> NounPhrase:
        """A phrase with this noun. `plain`: no adjectives; `relative`, `plural`: whether these are allowed."""
        phrase = NounPhrase(noun, *self.determiner(noun, determiners, plural))
        if modifiers_of(noun) and self.decide("compound"):
            phrase.modifier = self.choose(modifiers_of(noun))
        if plain:
            return phrase
        if adjectives_of(noun) and self.decide("adjective"):
            phrase.adjectives = (self.choose(adjectives_of(noun)),)
            if self.decide("degree"):
                phrase.degree = self.choose(invariables_of("degree", "attribute"))
        if adjectives_of(noun, "colour") and self.decide("colour"):
            phrase.adjectives += (self.choose(adjectives_of(noun, "colour")),)
        if relative and self.decide("relative"):
            phrase.relative = self.relative_clause(phrase)
            if phrase.relative.verb is BE:  # no "old man who is old"
                phrase.adjectives, phrase.degree = (), None
        return phrase

    def determiner(self, noun: Noun, determiners: str, plural: bool) -> tuple[str | int, bool]:
        """A determiner, and whether the noun is in the plural."""
        choice = self.choose_weighted(determiners)
        plural, mass = plural and self.decide("plural"), noun.english_plural == "-"
        if choice == "my":
            public = "own" not in noun.kinds and not {"person", "animal", "building", "area"}.isdisjoint(noun.kinds)
            choice = "the" if public else self.choose(POSSESSIVES)
            plural = plural and "single" not in noun.kinds
        if choice == "" and "person" in noun.kinds:
            choice = "the"
        if mass:
            return (choice if choice in DETERMINERS and choice not in ("a", "every", "many", "some") else ""), False
        if choice == "number":
            countable = not {"food", "text", "thing", "animal"}.isdisjoint(noun.kinds) and self.decide("large number")
            return 2 + int(self.random() * (98 if countable else 11)), True
        return choice, choice in ("", "many", "some") or plural and choice not in ("a", "every")

    def subject(self, kinds: tuple[str, ...], plain: bool = False) -> Nominal:
        """A subject of one of these kinds."""
        choice = self.choose_weighted("subject") if "person" in kinds else "phrase"
        if choice == "pronoun":
            return PRONOUNS[self.choose(("I", "he", "she", "we", "they"))]
        if choice == "name":
            return Name(self.choose(invariables_of("name")))
        if choice == "both":
            names = invariables_of("name")
            first = int(self.random() * len(names))
            second = (first + 1 + int(self.random() * (len(names) - 1))) % len(names)
            return Coordination(Name(names[first]), Name(names[second]))
        return self.noun_phrase(self.choose_noun(kinds), relative=not plain, plain=plain)

    def object(self, kinds: tuple[str, ...], determiners: str = "any", relative: bool = False) -> Nominal:
        """An object of one of these kinds."""
        kind = self.choose_kind(kinds)
        choice = self.choose_weighted("object") if kind == "person" else "phrase"
        if choice == "pronoun":
            return PRONOUNS[self.choose(("he", "she", "they"))]
        if choice == "name":
            return Name(self.choose(invariables_of("name")))
        return self.noun_phrase(self.choose_noun((kind,)), determiners, relative)

    def place(self) -> Prepositional:
        """A place."""
        preposition = self.choose_weighted("place")
        if preposition == "city":
            return Prepositional("in", Name(self.choose(invariables_of("city"))))
        return Prepositional(preposition, self.noun_phrase(self.choose_noun((preposition,)), "known", plural=False))

    def destination(self, verb: Verb) -> Prepositional:
        """The direction of a verb of motion."""
        preposition = self.choose(verb.object_kinds)
        if preposition == "city":
            return Prepositional("to city", Name(self.choose(invariables_of("city"))))
        kinds = {"out": ("in",), "into": ("in",), "onto": ("on",), "to": ("building", "area")}[preposition]
        place = self.noun_phrase(self.choose(nouns_of(*kinds)), "known", plural=False)
        return Prepositional("out of" if preposition == "out" else preposition, place)

    def time(self, period: str) -> Invariable | Prepositional | int:
        """An adverb of time, an hour, or before or after some event."""
        choice = self.choose_weighted("time")
        if choice == "clock":
            return 2 + int(self.random() * 11)
        if choice == "event" and period != "now":
            event = self.noun_phrase(self.choose_noun(("event",)), "known", plain=True, plural=False)
            return Prepositional(self.choose(("before", "after")), event)
        return self.choose(invariables_of("time", period if choice == "time" else "habit"))

    # Clauses.

    def clause(self, tense: str, subject: Nominal | None = None, plain: bool = False) -> Clause:
        """A clause; `plain`: without optional parts, except for negation and adverbs of frequency."""
        frame = self.choose_weighted("frame")
        if frame == "weather" and subject is None:
            return Clause(PRONOUNS["it"], self.choose(verbs_of(frame)), self.simple_tense(tense))
        verbs = verbs_of(frame, head_noun(subject)) if subject else verbs_of(frame)
        if not verbs:
            return self.copular_clause(tense, subject, plain)
        verb = self.choose(verbs)
        if "state" in verb.features:
            tense = "past" if period_of(tense) == "past" else "present"
        clause = Clause(subject or self.subject(verb.subject_kinds, plain), verb, tense)
        self.add_arguments(clause, relative=not plain)
        self.add_adverbials(clause, plain)
        return clause

    def add_arguments(self, clause: Clause, relative: bool = False) -> None:
        """Add the objects and adverbials that the verb requires."""
        verb = clause.verb
        if verb.frame == "accusative":
            clause.accusative = self.object(verb.object_kinds, relative=relative)
        elif verb.frame == "dative":
            clause.dative = self.object(verb.object_kinds, relative=relative)
        elif verb.frame == "ditransitive":
            clause.dative = self.object(("person",), "known")
            clause.accusative = self.noun_phrase(self.choose_noun(verb.object_kinds), relative=relative)
        elif verb.frame == "direction":
            clause.direction = self.destination(verb)
        elif verb.frame == "location":
            clause.place = self.place()

    def add_adverbials(self, clause: Clause, plain: bool = False) -> None:
        """Add negation and optional adverbials, but not after the relative clause of an object."""
        features, period = clause.verb.features, period_of(clause.tense)
        if may_negate(clause) and self.decide("negated"):
            clause.negated = True
        phrases = [x for x in (clause.subject, clause.dative, clause.accusative) if isinstance(x, NounPhrase)]
        negative_phrases = [x for x in phrases if x.determiner == "no"]
        for other in negative_phrases[1:]:  # one "no" is enough
            other.determiner = "the"
        negative = clause.negated or bool(negative_phrases)
        if not negative and invariables_of("frequency", clause.tense) and self.decide("frequency"):
            clause.frequency = self.choose(invariables_of("frequency", clause.tense))
        if plain or any(x.relative for x in phrases if x is not clause.subject):
            return
        if "manner" in features and not negative and self.decide("manner"):
            clause.manner = self.choose(invariables_of("manner"))
        if ("with" in features or "for" in features) and self.decide("partner"):
            clause.partner = Prepositional("with" if "with" in features else "for", self.object(("person",), "known"))
        if "place" in features and self.decide("place"):
            clause.place = self.place()
        if period != "perfect" and "state" not in features and self.decide("time"):
            clause.time = (
                self.choose(invariables_of("time", "habit")) if clause.frequency or negative else self.time(period)
            )

    def simple_tense(self, tense: str) -> str:
        """Replace a tense that doesn't fit the weather and states: the perfect and most modals."""
        if tense in ("present", "past", "will", "must"):
            return tense
        return "past" if period_of(tense) == "past" else "present"

    def copular_clause(self, tense: str, subject: Nominal | None, plain: bool) -> Clause:
        """A clause with "be": somebody or something is old, older than ..., a teacher, forty years old, somewhere."""
        choice, tense = self.choose_weighted("predicate"), self.simple_tense(tense)
        if subject is None:
            if choice in ("job", "age", "place") or self.decide("described person"):
                subject = self.subject(("person",), plain)
            else:
                subject = self.noun_phrase(self.choose(describable_nouns()), relative=not plain)
        noun, clause = head_noun(subject), Clause(subject, BE, tense)
        clause.negated = may_negate(clause) and self.decide("negated")
        used = subject.adjectives if isinstance(subject, NounPhrase) else ()
        comparable = nouns_of(noun.kinds[0]) if choice == "than" else ()
        if choice == "job" and subject.person == 1 and gender_of(subject) in ("der", "die"):
            jobs = [job for job in nouns_of("job") if job.gender == gender_of(subject) and job is not noun]
            clause.predicate = self.noun_phrase(self.choose(jobs), "new")
        elif choice == "age" and "person" in noun.kinds and subject is not WHO:
            clause.predicate = AgePredicate(
                2 + int(self.random() * 11) if "young" in noun.kinds else 18 + int(self.random() * 82)
            )
        elif choice == "place" and "person" in noun.kinds:
            clause.place = self.place()
        elif len(comparable) > 1 and adjectives_of(noun, "comparative"):
            other, adjective = self.choose(comparable), self.choose(adjectives_of(noun, "comparative"))
            clause.predicate = AdjectivePredicate(adjective, than=self.noun_phrase(other, "known", plain=True))
        else:
            adjective = self.choose([a for a in adjectives_of(noun) if a not in used])
            clause.predicate = AdjectivePredicate(
                adjective, self.choose(invariables_of("degree")) if self.decide("degree") else None
            )
        return clause

    def relative_clause(self, head: NounPhrase) -> Clause:
        """A short relative clause: who reads the book, that the woman buys, in which the man works."""
        noun, gap = head.noun, RelativeGap(head.noun, head.plural)
        tense, choice = self.choose(("present", "present", "past")), self.choose_weighted("relative")
        people = lexicon().nouns["man"]
        person = "person" in noun.kinds
        if choice == "subject":
            return self.clause(tense, gap, plain=True)
        clause = Clause(self.subject(("person",), plain=True), BE, tense)
        if choice == "place" and (person or "in" in noun.kinds):
            feature = "with" if person else "place"
            clause.verb = self.choose([verb for verb in verbs_of("intransitive", people) if feature in verb.features])
            clause.partner = Prepositional("with", gap) if person else None
            clause.place = None if person else Prepositional("in", gap)
        elif person and self.decide("dative relative"):
            clause.verb, clause.dative = self.choose(verbs_of("dative", people)), gap
        elif verbs_of("accusative", people, noun):
            clause.verb, clause.accusative = self.choose(verbs_of("accusative", people, noun)), gap
        else:
            return self.clause(tense, gap, plain=True)
        return clause

    # Sentences.

    def sentence(self) -> Sentence:
        """A complete tree."""
        period, kind = self.choose_weighted("period"), self.choose_weighted("sentence")
        tense = self.choose_weighted(period)
        if kind == "simple":
            return Sentence(self.front_adverbial(self.clause(tense)))
        if kind == "question":
            return self.question(tense)
        if kind in ("that", "to"):
            verb = self.choose(verbs_of(kind))
            main = Clause(self.subject(verb.subject_kinds), verb, "past" if period == "past" else "present")
            self.add_adverbials(main, plain=True)
            main.complement = self.clause(tense) if kind == "that" else self.infinitive_clause(main.subject)
            return Sentence(main)
        if kind in ("and", "but"):
            return Sentence(self.front_adverbial(self.clause(tense)), kind, self.clause(self.choose_weighted(period)))
        # Avoid "he has come if he will go" and "before she never sings".
        conjunction, second = self.choose_weighted("conjunction " + period), self.choose_weighted(period)
        main = self.clause("present" if tense == "perfect" else tense)
        other = self.clause("present" if second in ("perfect", "will") else second)
        if conjunction == "before":
            other.negated, other.frequency = False, None
        if kind == "fronted":
            return Sentence(main, conjunction, other, fronted=True)
        return Sentence(self.front_adverbial(main), conjunction, other)

    def infinitive_clause(self, subject: Nominal) -> Clause:
        """The infinitive clause after "try to"."""
        frame = self.choose(("accusative", "accusative", "dative", "ditransitive", "intransitive", "direction"))
        clause = Clause(subject, self.choose(verbs_of(frame, lexicon().nouns["man"])))
        self.add_arguments(clause, relative=True)
        self.add_adverbials(clause)
        clause.negated, clause.frequency, clause.tense = False, None, "present"
        return clause

    def front_adverbial(self, clause: Clause) -> Clause:
        """Possibly move an adverbial to the front of a main clause, which inverts subject and verb in German."""
        if clause.frequency is None and self.decide("opener"):
            clause.opener, clause.front = self.choose(invariables_of("opener", period_of(clause.tense))), "opener"
        elif clause.time is not None and self.decide("front"):
            clause.front = "time"
        elif clause.place is not None and clause.verb is not BE and self.decide("front"):
            clause.front = "place"
        return clause

    def question(self, tense: str) -> Sentence:
        """A question: yes or no, who, where, when or why."""
        kind = self.choose_weighted("question")
        clause = self.clause(tense, WHO if kind == "who" else None)
        clause.negated, clause.frequency = False, None
        if kind == "where" and (clause.direction or clause.verb is BE and clause.place is None):
            kind = "yes"
        elif kind == "where":
            clause.place = None
        elif kind == "when":
            clause.time = None
        return Sentence(clause, question=kind)


# ------------------------------------------------------------------------------------------- the splits


def combinations(node: object) -> Iterator[tuple[str, str, str]]:
    """Yield the pairs of verb and object, of adjective and noun, and of the parts of a compound in a tree."""
    if isinstance(node, NounPhrase):
        for adjective in node.adjectives:
            yield "adjective", adjective.english, node.noun.english
        if node.modifier:
            yield "compound", node.modifier.english, node.noun.english
        if node.relative:
            yield from combinations(node.relative)
    elif isinstance(node, Clause):
        for nominal in (node.dative, node.accusative):
            if isinstance(nominal, (NounPhrase, RelativeGap)):
                yield "object", node.verb.base, nominal.noun.english
        if isinstance(node.predicate, AdjectivePredicate) and isinstance(node.subject, (NounPhrase, RelativeGap)):
            yield "adjective", node.predicate.adjective.english, node.subject.noun.english
        for part in vars(node).values():
            if isinstance(part, (NounPhrase, Clause, Prepositional, AdjectivePredicate)):
                yield from combinations(part)
    elif isinstance(node, Prepositional):
        yield from combinations(node.nominal)
    elif isinstance(node, AdjectivePredicate):
        yield from combinations(node.than)
    elif isinstance(node, Sentence):
        yield from combinations(node.main)
        yield from combinations(node.other)


@cache
def split_of_combination(combination: tuple[str, str, str]) -> Split:
    """The split of a combination, by a hash: 5 % test, 5 % valid, 90 % train."""
    digest = hashlib.sha256(" ".join(combination).encode()).digest()
    bucket = int.from_bytes(digest[:4], "big") % 20
    return "test" if bucket == 0 else "valid" if bucket == 1 else "train"


def split_of(sentence: Sentence) -> Split | None:
    """The split of a sentence, or None if it has combinations of both valid and test."""
    splits = {split_of_combination(combination) for combination in combinations(sentence)} - {"train"}
    return None if len(splits) > 1 else splits.pop() if splits else "train"


def pairs(split: Split, count: int, seed: int = 0) -> list[AlignedPair]:
    """Return the first `count` sentence pairs of a split. They are all different, and the same on every machine.

    Raises:
        ValueError: for an unknown split or a negative count.
    """
    if count < 0:
        raise ValueError(f"count must not be negative: {count}")
    return list(islice(generate(split, seed), count))


def generate(split: Split, seed: int = 0) -> Iterator[AlignedPair]:
    """Generate the sentence pairs of a split, without end. They are all different, as in `pairs`.

    Raises:
        ValueError: for an unknown split.
    """
    if split not in get_args(Split):
        raise ValueError(f"unknown split {split!r}: choose train, valid or test")
    return _unique_pairs(split, Sampler(f"pocket {split} {seed}"))


def _unique_pairs(split: Split, sampler: Sampler) -> Iterator[AlignedPair]:
    seen: set[str] = set()
    while True:
        sentence = sampler.sentence()
        if split_of(sentence) == split:
            pair = render(sentence)
            if max(len(pair.source_words), len(pair.target_words)) <= MAX_WORDS and pair.source not in seen:
                seen.add(pair.source)
                yield pair


def count_lemmas() -> int:
    """Count the lemmas of the grammar: those of the lexicon, and the function words in the grammar's tables."""
    words = lexicon()
    content = [*words.nouns, *words.modifiers, *words.adjectives, *words.colours, *words.verbs]
    adverbs = [english for kind in words.invariables.values() for english in kind]
    function = [*DETERMINERS, *PRONOUNS, *PREPOSITIONS, *MODALS, *CONJUNCTIONS, *QUESTIONS]
    return len(content) + len(adverbs) + len(function)


def language_size() -> int:
    """A lower bound for the number of different pairs: the number of those like "The young man reads an old book."

    Their subject and object consist of "the", "a" or a possessive, at most one adjective, and a noun in the singular.
    The verb is transitive and in the present tense. All of these sentences are different.
    """

    def phrases(kinds: Sequence[str]) -> int:
        n_phrases = 0
        for noun in nouns_of(*kinds):
            if noun.english_plural != "-":
                n_determiners = 2 + (len(POSSESSIVES) if "own" in noun.kinds else 0)
                n_phrases += n_determiners * (1 + len(adjectives_of(noun)))
        return n_phrases

    return sum(phrases(verb.subject_kinds) * phrases(verb.object_kinds) for verb in verbs_of("accusative"))
