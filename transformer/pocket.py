"""The embedded corpus: a synchronous English-German grammar with gold word alignment. Nothing is downloaded.

*Synchronous* means that every rule writes both sides at once. A rule returns a `Phrase`: some English words and some German
words. A `Word` knows the *ideas* that it expresses, and two words are aligned when they share an idea; so a rule may reorder
either side as its grammar wants and the alignment follows by itself. The file has four parts, from the bottom up:

1. the lexicon (`pocket_lexicon.tsv`) and the endings and forms of German;
2. the tree of a sentence: what is to be said, in neither language (`NounPhrase`, `Clause`, `Sentence`, ...);
3. the rules (`say_...`), which turn a tree into both languages;
4. the `Chooser`, which grows random trees (all its probabilities are in `WEIGHTS`), and `pairs`, the corpus itself.

The translation is a function of the English sentence: no English sentence has two German ones. Hence no "you", no ambiguous
word, and only the orders of words whose reading is plain.

*The splits.* Three kinds of combination are dealt out by a hash: (verb, object), (adjective, noun), and (first, second part
of a compound); 90 % to training, 5 % to validation, 5 % to test. Training sentences use training combinations alone; a test
sentence uses at least one of test's and none of validation's, and the other way round. So no sentence is in two splits, and
no test sentence can be translated by remembering it, while each of its words is common in training.

*Alignment.* What is said by several words together is linked each with each ("opens" with "macht" and "auf", "kitchen" and
"table" with "Küchentisch"; "not" and "a" with "kein"). Commas of one language alone are linked to nothing; so is nothing else.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple, TypeVar

T = TypeVar("T")
Split = Literal["train", "valid", "test"]


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation; `alignment` holds sorted (source word, target word) indices from 0."""

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...]


# ---------------------------------------------------------------------------------------- 1. words and their forms

Case = Literal["nominative", "accusative", "dative"]


class Noun(NamedTuple):
    english: str
    english_plural: str
    gender: str  # "der", "die" or "das"
    german: str
    german_oblique: str  # the singular outside the nominative: differs for weak nouns (der Junge, den Jungen)
    german_plural: str
    kinds: tuple[str, ...]


class First(NamedTuple):
    """The first part of a compound: "kitchen" and "Küchen" in "kitchen table", "Küchentisch"."""

    english: str
    german: str
    group: str


class Adjective(NamedTuple):
    english: str
    german: str
    stem: str  # what the endings are put to: dunkel, but ein dunkler Wald
    kinds: tuple[str, ...]
    english_comparative: str = "-"
    german_comparative: str = "-"


class Verb(NamedTuple):
    base: str
    present: str
    past: str
    participle: str
    infinitive: str
    prefix: str  # of a separable verb, or ""
    german_present: str  # with er, sie, es
    german_participle: str
    auxiliary: str
    frame: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    extras: tuple[str, ...]


class Fixed(NamedTuple):
    """An adverb or a name. The words of both languages correspond one to one; "_" joins words that do so together."""

    english: str
    german: str
    when: tuple[str, ...] = ()


class Pronoun(NamedTuple):
    english: tuple[str, str]  # I, me
    german: tuple[str, str, str]  # ich, mich, mir
    person: int


@dataclass(frozen=True)
class Lexicon:
    nouns: dict[str, Noun] = field(default_factory=dict)
    firsts: dict[str, First] = field(default_factory=dict)
    adjectives: dict[str, Adjective] = field(default_factory=dict)
    colours: dict[str, Adjective] = field(default_factory=dict)
    verbs: dict[tuple[str, str], Verb] = field(default_factory=dict)  # by (base, frame)
    fixed: dict[str, dict[str, Fixed]] = field(default_factory=dict)  # by kind (name, time, ...) and English


@cache
def lexicon() -> Lexicon:
    """Read the words from `pocket_lexicon.tsv`."""
    words = Lexicon()
    for line in resources.files("transformer").joinpath("pocket_lexicon.tsv").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        kind, english, *rest = line.split("\t")
        if kind == "noun":
            plural, gender, german, german_plural, kinds = rest
            singular, _, weak = german.partition("~")
            words.nouns[english] = Noun(
                english, plural, gender, singular, singular + weak, german_plural, tuple(kinds.split())
            )
        elif kind == "first":
            words.firsts[english] = First(english, *rest)
        elif kind in ("adjective", "colour"):
            german, kinds, *comparatives = rest
            alone, _, stem = german.partition("/")
            place = words.adjectives if kind == "adjective" else words.colours
            place[english] = Adjective(english, alone, stem or alone.removesuffix("e"), tuple(kinds.split()), *comparatives)
        elif kind == "verb":
            infinitive, present, participle, auxiliary, frame, subjects, objects, extras = rest
            size = len(english.split()) // 4
            forms = [" ".join(english.split()[i * size : (i + 1) * size]) for i in range(4)]
            prefix, _, stem = infinitive.rpartition("|")
            words.verbs[forms[0], frame] = Verb(
                *(forms[0], forms[1], forms[2], forms[3], stem, prefix, present, participle, auxiliary, frame),
                *(tuple(subjects.split()), tuple(objects.split()), tuple(extras.split())),
            )
        else:
            when = tuple(rest[1].split()) if len(rest) > 1 else ()
            words.fixed.setdefault(kind, {})[english] = Fixed(english, rest[0], when)
    return words


# The strong endings, which show gender, number and case; der, die, das have forms of their own.
STRONG = {
    "nominative": {"der": "er", "die": "e", "das": "es", "plural": "e"},
    "accusative": {"der": "en", "die": "e", "das": "es", "plural": "e"},
    "dative": {"der": "em", "die": "er", "das": "em", "plural": "en"},
}
ARTICLE = {
    "nominative": {"der": "der", "die": "die", "das": "das", "plural": "die"},
    "accusative": {"der": "den", "die": "die", "das": "das", "plural": "die"},
    "dative": {"der": "dem", "die": "der", "das": "dem", "plural": "den"},
}
# English determiner -> (German stem, what follows it): "strong" shows the ending itself, "ein" shows none in three places,
# "quantity" is declined like an adjective and leaves the adjective strong too.
DETERMINERS = {
    "the": ("", "article"),
    "this": ("dies", "strong"),
    "every": ("jed", "strong"),
    "a": ("ein", "ein"),
    "no": ("kein", "ein"),
    "my": ("mein", "ein"),
    "his": ("sein", "ein"),
    "her": ("ihr", "ein"),
    "our": ("unser", "ein"),
    "their": ("ihr", "ein"),
    "many": ("viel", "quantity"),
    "some": ("einig", "quantity"),
}
POSSESSIVES = ("my", "his", "her", "our", "their")
DEFINITE = ("the", "this", *POSSESSIVES)  # objects known already: German puts them early
PRONOUNS = {
    "I": Pronoun(("I", "me"), ("ich", "mich", "mir"), 0),
    "he": Pronoun(("he", "him"), ("er", "ihn", "ihm"), 1),
    "she": Pronoun(("she", "her"), ("sie", "sie", "ihr"), 1),
    "we": Pronoun(("we", "us"), ("wir", "uns", "uns"), 2),
    "they": Pronoun(("they", "them"), ("sie", "sie", "ihnen"), 2),
    "it": Pronoun(("it", "it"), ("es", "es", "ihm"), 1),  # only for the weather
}
WHO = Pronoun(("who", "whom"), ("wer", "wen", "wem"), 1)
PREPOSITIONS: dict[str, tuple[str, Case]] = {
    "in": ("in", "dative"),
    "at": ("an", "dative"),
    "on": ("auf", "dative"),
    "with": ("mit", "dative"),
    "after": ("nach", "dative"),
    "before": ("vor", "dative"),
    "out of": ("aus", "dative"),
    "to": ("zu", "dative"),
    "to city": ("nach", "dative"),
    "into": ("in", "accusative"),
    "onto": ("auf", "accusative"),
    "for": ("für", "accusative"),
}
CONTRACTIONS = {"in dem": "im", "an dem": "am", "zu dem": "zum", "zu der": "zur", "in das": "ins"}

# Verb forms by person: 0 = I, 1 = he, she, it, 2 = we, they.
Forms = tuple[str, str, str]
HABEN: Forms = ("habe", "hat", "haben")
SEIN: Forms = ("bin", "ist", "sind")
WAR: Forms = ("war", "war", "waren")
BE = Verb("be", "is", "was", "been", "sein", "", "ist", "gewesen", "sein", "be", (), (), ())


class Modal(NamedTuple):
    english: Forms
    german: Forms
    base: str = ""  # set when English makes questions and negations with "do": "does not want to"
    past: bool = False


MODALS = {
    "will": Modal(("will", "will", "will"), ("werde", "wird", "werden")),
    "can": Modal(("can", "can", "can"), ("kann", "kann", "können")),
    "must": Modal(("must", "must", "must"), ("muss", "muss", "müssen")),
    "may": Modal(("may", "may", "may"), ("darf", "darf", "dürfen")),
    "should": Modal(("should", "should", "should"), ("sollte", "sollte", "sollten")),
    "want": Modal(("want to", "wants to", "want to"), ("will", "will", "wollen"), "want to"),
    "could": Modal(("could", "could", "could"), ("konnte", "konnte", "konnten"), past=True),
    "wanted": Modal(("wanted to", "wanted to", "wanted to"), ("wollte", "wollte", "wollten"), "want to", True),
    "had": Modal(("had to", "had to", "had to"), ("musste", "musste", "mussten"), "have to", True),
}
CONJUNCTIONS = {
    "because": "weil",
    "although": "obwohl",
    "if": "wenn",
    "when": "als",  # one time in the past
    "while": "während",
    "before": "bevor",
    "that": "dass",
    "and": "und",
    "but": "aber",
}
QUESTIONS = {"where": "wo", "when": "wann", "why": "warum"}

ENGLISH_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
GERMAN_UNITS = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
).split()
ENGLISH_TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
GERMAN_TENS = "_ _ zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def number(value: int) -> tuple[str, str]:
    """2 to 99 in words: 21 -> twenty-one, einundzwanzig."""
    if value < 20:
        return ENGLISH_UNITS[value], GERMAN_UNITS[value]
    tens, unit = divmod(value, 10)
    if unit == 0:
        return ENGLISH_TENS[tens], GERMAN_TENS[tens]
    return f"{ENGLISH_TENS[tens]}-{ENGLISH_UNITS[unit]}", f"{GERMAN_UNITS[unit]}und{GERMAN_TENS[tens]}"


# ---------------------------------------------------------------------------------------- 2. the tree of a sentence


@dataclass(frozen=True)
class NounPhrase:
    noun: Noun
    determiner: str | int = "the"  # of DETERMINERS, a number from 2, or "" for none
    plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    first: First | None = None
    degree: Fixed | None = None  # "very", for the first adjective
    relative: Clause | None = None  # one of its places holds a Relative

    @property
    def person(self) -> int:
        return 2 if self.plural else 1


@dataclass(frozen=True)
class Relative:
    """The place in a relative clause that the noun would have."""

    noun: Noun
    plural: bool = False

    @property
    def person(self) -> int:
        return 2 if self.plural else 1


@dataclass(frozen=True)
class Name:
    name: Fixed
    person: int = 1


@dataclass(frozen=True)
class Both:
    """The boy and the girl."""

    left: Nominal
    right: Nominal
    person: int = 2


Nominal = NounPhrase | Name | Pronoun | Both | Relative


class Prepositional(NamedTuple):
    preposition: str
    nominal: Nominal


class Quality(NamedTuple):
    """A predicate: "is very old", "is older than the church"."""

    adjective: Adjective
    degree: Fixed | None = None
    than: Nominal | None = None


class Age(NamedTuple):
    years: int


@dataclass(frozen=True)
class Clause:
    """`tense`: present, past, perfect or a key of MODALS. `front`: which part stands before subject and verb."""

    subject: Nominal
    verb: Verb
    tense: str = "present"
    negated: bool = False
    dative: Nominal | None = None
    accusative: Nominal | None = None
    predicate: Quality | Age | NounPhrase | None = None
    direction: Prepositional | None = None
    partner: Prepositional | None = None  # with somebody, for somebody
    place: Prepositional | None = None
    time: Fixed | Prepositional | int | None = None  # a number is an hour
    frequency: Fixed | None = None
    manner: Fixed | None = None
    opener: Fixed | None = None
    front: Literal["", "time", "place", "opener"] = ""
    complement: Clause | None = None  # of "say that", "try to"


@dataclass(frozen=True)
class Sentence:
    """One clause; or two, joined by a conjunction, which stands first when `fronted`. `question`: "yes" or a key of QUESTIONS."""

    main: Clause
    conjunction: str = ""
    other: Clause | None = None
    fronted: bool = False
    question: str = ""


# ---------------------------------------------------------------------------------------- 3. the rules


class Word(NamedTuple):
    text: str
    ideas: tuple[int, ...] = ()


Words = list[Word]
_new_idea = itertools.count().__next__
COMMA = Word(",")


class Phrase(NamedTuple):
    english: Words
    german: Words
    later: Words = []  # German words that wait until the verb is complete: the object's relative clause


NOTHING = Phrase([], [])


def unit(english: str, german: str, *ideas: int) -> Phrase:
    """Words that together mean one thing: each is linked with each."""
    ideas = ideas or (_new_idea(),)
    return Phrase([Word(w, ideas) for w in english.split()], [Word(w, ideas) for w in german.split()])


def chain(*phrases: Phrase) -> Phrase:
    """One phrase after the other, on both sides."""
    return Phrase(
        [w for p in phrases for w in p.english], [w for p in phrases for w in p.german], [w for p in phrases for w in p.later]
    )


def say_fixed(item: Fixed) -> Phrase:
    parts = zip(item.english.split(), item.german.split(), strict=True)
    return chain(*(unit(e.replace("_", " "), g.replace("_", " ")) for e, g in parts))


def say_nominal(item: Nominal, case: Case = "nominative", negation: int | None = None) -> Phrase:
    """A noun phrase, name or pronoun in its case; `negation`: the idea of "not" when kein is to express it."""
    if isinstance(item, Pronoun):
        german = item.german[("nominative", "accusative", "dative").index(case)]
        return unit(item.english[case != "nominative"], german)
    if isinstance(item, Name):
        return say_fixed(item.name)
    if isinstance(item, Both):
        return chain(say_nominal(item.left, case), unit("and", "und"), say_nominal(item.right, case))
    if isinstance(item, Relative):
        human = "person" in item.noun.kinds
        english = ("who" if case == "nominative" else "whom") if human else "that"
        return unit(english, relative_pronoun(item, case))
    return say_noun_phrase(item, case, negation)


def relative_pronoun(item: Relative, case: Case) -> str:
    if item.plural and case == "dative":
        return "denen"
    return ARTICLE[case]["plural" if item.plural else item.noun.gender]


def say_determiner(item: NounPhrase, case: Case, negation: int | None) -> tuple[Phrase, bool]:
    """The determiner, and whether it has shown the case: if not, the adjectives must."""
    gender = "plural" if item.plural else item.noun.gender
    if isinstance(item.determiner, int):
        return unit(*number(item.determiner)), False
    if negation is not None:  # not a -> kein
        idea = _new_idea()
        english = [Word("a", (idea,))] if item.determiner == "a" else []
        _, german, _ = say_determiner(replace(item, determiner="no"), case, None)[0]
        return Phrase(english, [Word(german[0].text, (idea, negation))]), ending_is_shown("ein", gender, case)
    if not item.determiner:
        return NOTHING, False
    english_form = "these" if item.plural and item.determiner == "this" else item.determiner
    stem, kind = DETERMINERS[item.determiner]
    shown = ending_is_shown(kind, gender, case)
    if kind == "article":
        german_form = ARTICLE[case][gender]
    else:
        german_form = stem + (STRONG[case][gender] if shown or kind == "quantity" else "")
    return unit(english_form, german_form), shown


def ending_is_shown(kind: str, gender: str, case: Case) -> bool:
    if kind == "ein":  # ein Mann, ein Kind: no ending
        return not (gender == "das" and case != "dative" or gender == "der" and case == "nominative")
    return kind != "quantity"


def say_noun_phrase(item: NounPhrase, case: Case, negation: int | None = None) -> Phrase:
    gender = "plural" if item.plural else item.noun.gender
    determiner, shown = say_determiner(item, case, negation)
    if not shown:
        ending = STRONG[case][gender]
    else:  # the weak endings: -e in five places, -en in all others
        ending = "e" if case == "nominative" and not item.plural or case == "accusative" and gender in ("die", "das") else "en"
    degree = say_fixed(item.degree) if item.degree else NOTHING
    adjectives = [unit(a.english, a.stem + ending) for a in item.adjectives]
    noun = say_noun(item, case)
    english = [*determiner.english, *degree.english, *(w for a in adjectives for w in a.english), *noun.english]
    german = [*determiner.german, *degree.german, *(w for a in adjectives for w in a.german), *noun.german]
    if english[0].text == "a" and english[1].text[0] in "aeiou":
        english[0] = english[0]._replace(text="an")
    if not item.relative:
        return Phrase(english, german)
    clause = say_clause(item.relative, "final")
    return Phrase(english + clause.english, german, [COMMA, *clause.german, COMMA])


def say_noun(item: NounPhrase, case: Case) -> Phrase:
    noun = item.noun
    if item.plural:
        english, german = noun.english_plural, noun.german_plural
        if case == "dative" and german[-1] not in "ns":
            german += "n"
    else:
        english, german = noun.english, noun.german if case == "nominative" else noun.german_oblique
    if item.first:
        english, german = f"{item.first.english} {english}", item.first.german + german.lower()
    return unit(english, german)


def say_prepositional(item: Prepositional) -> Phrase:
    """Preposition and noun phrase; in dem -> im."""
    german, case = PREPOSITIONS[item.preposition]
    nominal = item.nominal
    inner = say_nominal(nominal, case)
    outer = unit(item.preposition.removesuffix(" city"), german)
    if isinstance(nominal, Relative):  # the house in which, the woman with whom
        whom = "whom" if "person" in nominal.noun.kinds else "which"
        inner.english[0] = inner.english[0]._replace(text=whom)
    both = f"{german} {inner.german[0].text}"
    if isinstance(nominal, NounPhrase) and nominal.determiner == "the" and both in CONTRACTIONS:
        merged = Word(CONTRACTIONS[both], outer.german[0].ideas + inner.german[0].ideas)
        return Phrase(outer.english + inner.english, [merged, *inner.german[1:]], inner.later)
    return chain(outer, inner)


def say_time(item: Fixed | Prepositional | int) -> Phrase:
    if isinstance(item, int):
        return chain(unit("at", "um"), unit(*number(item)), unit("o'clock", "Uhr"))
    return say_fixed(item) if isinstance(item, Fixed) else say_prepositional(item)


def say_predicate(item: Quality | Age | NounPhrase, negation: int | None) -> Phrase:
    if isinstance(item, NounPhrase):
        return say_noun_phrase(item, "nominative", negation)
    if isinstance(item, Age):
        return chain(unit(*number(item.years)), unit("years", "Jahre"), unit("old", "alt"))
    if item.than:
        comparative = unit(item.adjective.english_comparative, item.adjective.german_comparative)
        return chain(comparative, unit("than", "als"), say_nominal(item.than))
    degree = say_fixed(item.degree) if item.degree else NOTHING
    return chain(degree, unit(item.adjective.english, item.adjective.german))


def german_present(verb: Verb, person: int) -> str:
    """ich mache, ich sammle, er macht, sie machen."""
    if verb is BE:
        return SEIN[person]
    if person == 1 or verb.infinitive == "wissen" and person == 0:
        return verb.german_present
    if person == 2:
        return verb.infinitive
    stem = verb.infinitive.removesuffix("n").removesuffix("e")
    return (stem[:-2] + "l" if verb.infinitive.endswith("eln") else stem) + "e"


def say_verb(clause: Clause, asks: bool, negation: int | None) -> tuple[Words, Words, Word, Words]:
    """English auxiliary and rest, German finite verb and rest (which ends the clause).

    "does", "has", "will" share one idea with the finite verb; what the verb means is another.
    """
    verb, tense, person = clause.verb, clause.tense, clause.subject.person
    finite, meaning = (_new_idea(),), (_new_idea(),)
    both = finite + meaning

    def words(text: str, ideas: tuple[int, ...]) -> Words:
        return [Word(w, ideas) for w in text.split()]

    helper = "does" if person == 1 else "do"
    if tense in MODALS:
        modal = MODALS[tense]
        german, german_rest = Word(modal.german[person], finite), [Word(verb.prefix + verb.infinitive, meaning)]
        rest = words(verb.base, meaning)
        if not modal.base:
            auxiliary = words(modal.english[person], finite)
        elif asks or negation is not None:
            auxiliary, rest = words("did" if modal.past else helper, finite), words(modal.base, finite) + rest
        else:
            auxiliary, rest = [], words(modal.english[person], finite) + rest
    elif tense == "present" and verb is not BE or tense == "past" and verb is not BE:
        form = verb.past if tense == "past" else verb.present if person == 1 else verb.base
        if asks or negation is not None:
            auxiliary, rest = words("did" if tense == "past" else helper, finite), words(verb.base, meaning)
        else:
            auxiliary, rest = [], words(form, both)
        if tense == "past":  # spoken German says what is past in the perfect
            german = Word((SEIN if verb.auxiliary == "sein" else HABEN)[person], finite)
            german_rest = [Word(verb.german_participle, meaning)]
        else:
            german = Word(german_present(verb, person), both)
            german_rest = [Word(verb.prefix, meaning)] if verb.prefix else []
    elif verb is BE:
        english = ("am", "is", "are") if tense == "present" else ("was", "was", "were")
        auxiliary, rest = words(english[person], both), []
        german, german_rest = Word((SEIN if tense == "present" else WAR)[person], both), []
    else:  # perfect
        auxiliary, rest = words("has" if person == 1 else "have", finite), words(verb.participle, meaning)
        german = Word((SEIN if verb.auxiliary == "sein" else HABEN)[person], finite)
        german_rest = [Word(verb.german_participle, meaning)]
    if negation is not None:
        if auxiliary[0].text == "can":
            auxiliary = [Word("cannot", (*finite, negation))]
        else:
            auxiliary = [*auxiliary, Word("not", (negation,))]
    return auxiliary, rest, german, german_rest


def is_definite(item: Nominal) -> bool:
    return not isinstance(item, NounPhrase) or item.determiner in DEFINITE


def takes_kein(item: object) -> bool:
    """not a book -> kein Buch, not ... books -> keine Bücher"""
    return isinstance(item, NounPhrase) and item.determiner in ("a", "")


Order = Literal["second", "question", "inverted", "final", "to"]


def say_clause(clause: Clause, order: Order, opening: Phrase = NOTHING) -> Phrase:
    """A clause. Its order says where German puts the finite verb.

    "second": main clauses. "question": first, and before the subject in English too. "inverted": first, because another clause
    stands in front. "final": last, after `opening` or a relative pronoun. "to": no subject, "to open" -> "aufzumachen".
    """
    negation = _new_idea() if clause.negated else None
    kein = next((x for x in (clause.accusative, clause.dative, clause.predicate) if takes_kein(x)), None)

    def nominal(item: Nominal | None, case: Case) -> Phrase:
        return say_nominal(item, case, negation if item is kein else None) if item else NOTHING

    subject = nominal(clause.subject, "nominative")
    dative = nominal(clause.dative, "dative")
    accusative = nominal(clause.accusative, "accusative")
    predicate = say_predicate(clause.predicate, negation if kein is clause.predicate else None) if clause.predicate else NOTHING
    direction, partner, place = (
        say_prepositional(x) if x else NOTHING for x in (clause.direction, clause.partner, clause.place)
    )
    time = say_time(clause.time) if clause.time is not None else NOTHING
    frequency, manner, opener = (say_fixed(x) if x else NOTHING for x in (clause.frequency, clause.manner, clause.opener))
    complement = say_complement(clause)

    # The part in front, on both sides: a fronted adverbial, a relative pronoun, or nothing.
    front = NOTHING
    if clause.front == "time":
        front, time = time, NOTHING
    elif clause.front == "place":
        front, place = place, NOTHING
    elif clause.front == "opener":
        front = opener
    if isinstance(clause.dative, Relative):
        front, dative = dative, NOTHING
    elif isinstance(clause.accusative, Relative):
        front, accusative = accusative, NOTHING
    elif clause.place and isinstance(clause.place.nominal, Relative):
        front, place = place, NOTHING
    elif clause.partner and isinstance(clause.partner.nominal, Relative):
        front, partner = partner, NOTHING

    auxiliary, rest, finite, german_rest = say_verb(clause, order == "question", negation)
    if order == "to":
        idea = (_new_idea(),)
        meaning = german_rest[0].ideas if german_rest else finite.ideas
        subject, auxiliary = NOTHING, [Word("to", idea)]
        rest = [Word(w, meaning) for w in clause.verb.base.split()]
        if clause.verb.prefix:
            german_rest = [Word(f"{clause.verb.prefix}zu{clause.verb.infinitive}", idea + meaning)]
        else:
            german_rest = [Word("zu", idea), Word(clause.verb.infinitive, meaning)]
    inverted = [*auxiliary, *subject.english] if order == "question" else [*subject.english, *auxiliary]
    english = [
        *(opening.english + front.english + inverted + frequency.english + rest),
        *(dative.english + accusative.english + predicate.english + direction.english),
        *(manner.english + partner.english + place.english + time.english + complement.english),
    ]

    # The German middle field: what is known comes early, what is new comes late; "nicht" stands between them.
    objects = [(clause.dative, dative), (clause.accusative, accusative)]
    known = [w for item, phrase in objects if item and is_definite(item) for w in phrase.german]
    new = [w for item, phrase in objects if item and not is_definite(item) for w in phrase.german]
    nicht = [Word("nicht", (negation,))] if negation is not None and kein is None else []
    middle = [
        *(known + time.german + frequency.german + nicht + manner.german + partner.german + place.german),
        *(new + predicate.german + direction.german),
    ]
    own_subject = subject.german + subject.later
    later = dative.later + accusative.later + predicate.later + complement.german
    if order == "second":
        head = [*front.german, finite, *own_subject] if front.german else [*own_subject, finite]
        german = [*head, *middle, *german_rest]
    elif order in ("question", "inverted"):
        german = [*opening.german, finite, *own_subject, *middle, *german_rest]
    elif order == "to":
        german = [*middle, *german_rest]
    else:
        german = [*opening.german, *front.german, *own_subject, *middle, *verb_final(finite, german_rest)]
    return Phrase(english, german + later)


def verb_final(finite: Word, rest: Words) -> Words:
    """The verb at the end: "macht ... auf" becomes one word, "aufmacht"; auxiliaries and modals come last."""
    if rest and rest[0].ideas[0] in finite.ideas:
        return [Word(rest[0].text + finite.text, finite.ideas)]
    return [*rest, finite]


def say_complement(clause: Clause) -> Phrase:
    if clause.complement is None:
        return NOTHING
    if clause.verb.frame == "that":
        inner = say_clause(clause.complement, "final", unit("that", CONJUNCTIONS["that"]))
    else:
        inner = say_clause(clause.complement, "to")
    return Phrase(inner.english, [COMMA, *inner.german, COMMA])


def say(sentence: Sentence) -> Pair:
    """Both sides of a sentence and their alignment."""
    main, other = sentence.main, sentence.other
    stop = unit("?", "?") if sentence.question else unit(".", ".")
    comma = unit(",", ",")
    if sentence.question and main.subject != WHO:
        wh = sentence.question
        whole = say_clause(main, "question", unit(wh, QUESTIONS[wh]) if wh in QUESTIONS else NOTHING)
    elif other is None:
        whole = say_clause(main, "second")
    elif sentence.conjunction in ("and", "but"):
        middle = unit(sentence.conjunction, CONJUNCTIONS[sentence.conjunction])
        between = chain(comma, middle) if sentence.conjunction == "but" else middle
        whole = chain(say_clause(main, "second"), between, say_clause(other, "second"))
    else:
        opening = unit(sentence.conjunction, CONJUNCTIONS[sentence.conjunction])
        subordinate = say_clause(other, "final", opening)
        if sentence.fronted:  # the whole clause is in front, so the main clause begins with its verb
            whole = chain(subordinate, comma, say_clause(main, "inverted"))
        else:
            whole = chain(say_clause(main, "second"), Phrase([], [COMMA]), subordinate)
    return finish(chain(whole, stop))


def finish(phrase: Phrase) -> Pair:
    """Tidy the commas, begin with a capital, number the words and link those that share an idea."""
    english, german = phrase.english, tidy(phrase.german)
    english[0] = english[0]._replace(text=english[0].text[0].upper() + english[0].text[1:])
    german[0] = german[0]._replace(text=german[0].text[0].upper() + german[0].text[1:])
    where: dict[int, list[int]] = {}
    for j, word in enumerate(german):
        for idea in word.ideas:
            where.setdefault(idea, []).append(j)
    links = {(i, j) for i, word in enumerate(english) for idea in word.ideas for j in where.get(idea, ())}
    source, target = tuple(w.text for w in english), tuple(w.text for w in german)
    return Pair(detokenize(source), detokenize(target), source, target, tuple(sorted(links)))


def tidy(words: Words) -> Words:
    """Of two commas that meet one is enough, and none is needed before the full stop."""
    kept: Words = []
    for word in words:
        if kept and kept[-1].text == "," and word.text in ",.?":
            word = word._replace(ideas=kept.pop().ideas + word.ideas)
        kept.append(word)
    return kept


def detokenize(words: Sequence[str]) -> str:
    return "".join(word if word in (",", ".", "?") else " " + word for word in words).strip()


# ---------------------------------------------------------------------------------------- 4. the corpus

# Everything that chance decides: one line a choice; the numbers are relative weights.
WEIGHTS: dict[str, dict[str, float]] = {
    "sentence": {"simple": 54, "and": 5, "but": 3, "subordinate": 12, "fronted": 10, "that": 6, "to": 5, "question": 5},
    "conjunction now": {"because": 4, "although": 3, "if": 4, "while": 2, "before": 1},
    "conjunction past": {"because": 4, "although": 3, "when": 4, "while": 2, "before": 1},
    "question": {"yes": 5, "where": 1, "when": 1, "why": 2, "who": 2},
    "frame": {
        "accusative": 56,
        "dative": 9,
        "ditransitive": 8,
        "intransitive": 14,
        "direction": 10,
        "location": 4,
        "be": 14,
        "weather": 1,
    },
    "period": {"now": 6, "past": 4},
    "now": {"present": 60, "perfect": 10, "will": 7, "can": 5, "must": 5, "want": 5, "should": 4, "may": 3},
    "past": {"past": 80, "could": 7, "wanted": 7, "had": 6},
    "subject": {"phrase": 72, "pronoun": 16, "name": 10, "both": 2},
    "object": {"phrase": 86, "pronoun": 7, "name": 7},
    "known": {"the": 40, "possessive": 16, "this": 6},
    "determiner": {"the": 40, "a": 22, "possessive": 14, "this": 5, "every": 3, "no": 2, "": 8, "many": 4, "some": 4, "number": 7},
    "job": {"a": 1},
    "event": {"the": 4, "possessive": 1},
    "place": {"in": 7, "at": 2, "on": 2, "city": 1},
    "predicate": {"quality": 60, "than": 12, "job": 12, "age": 6, "place": 10},
    "relative": {"subject": 5, "object": 4, "place": 1},
}
# The probability that a part is there at all, where the grammar allows it.
CHANCES = {
    "plural": 0.3,
    "adjective": 0.38,
    "colour": 0.12,
    "compound": 0.45,
    "degree": 0.12,
    "relative": 0.09,
    "negated": 0.14,
    "time": 0.2,
    "place": 0.2,
    "partner": 0.25,
    "manner": 0.14,
    "frequency": 0.14,
    "opener": 0.04,
    "front": 0.35,
}
LONGEST = 25  # words of a sentence, on either side
QUANTITIES = ("every", "no", "many", "some")


@cache
def nouns_of(kinds: tuple[str, ...]) -> tuple[Noun, ...]:
    return tuple(noun for noun in lexicon().nouns.values() if not set(kinds).isdisjoint(noun.kinds))


@cache
def firsts_of(noun: Noun) -> tuple[First, ...]:
    """The first parts of the compounds that end in this noun."""
    return tuple(first for first in lexicon().firsts.values() if "+" + first.group in noun.kinds)


@cache
def adjectives_of(noun: Noun, kind: str = "any") -> tuple[Adjective, ...]:
    words = lexicon().colours if kind == "colour" else lexicon().adjectives
    found = (a for a in words.values() if not set(a.kinds).isdisjoint(noun.kinds))
    return tuple(a for a in found if kind != "comparative" or a.english_comparative != "-")


@cache
def verbs_of(frame: str, subject: Noun | None = None, accusative: Noun | None = None) -> tuple[Verb, ...]:
    """The verbs of a frame that suit a subject or an object."""
    return tuple(
        verb
        for verb in lexicon().verbs.values()
        if verb.frame == frame
        and (subject is None or not set(verb.subjects).isdisjoint(subject.kinds))
        and (accusative is None or not set(verb.objects).isdisjoint(accusative.kinds))
    )


@cache
def fixed_of(kind: str, when: str = "") -> tuple[Fixed, ...]:
    return tuple(item for item in lexicon().fixed[kind].values() if not when or when in item.when)


def time_frame(tense: str) -> str:
    """Which adverbs of time suit a tense: now, past, perfect or future."""
    if tense in MODALS:
        return "past" if MODALS[tense].past else "future"
    return {"present": "now"}.get(tense, tense)


class Chooser:
    """Grows random trees. It asks `random.Random` for `random()` alone, which is the same everywhere and for ever."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed).random

    def chance(self, name: str) -> bool:
        return self.random() < CHANCES[name]

    def one(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

    def weighted(self, name: str) -> str:
        point = self.random() * sum(WEIGHTS[name].values())
        for key, weight in WEIGHTS[name].items():  # noqa: B007
            point -= weight
            if point < 0:
                break
        return key

    def noun_phrase(self, noun: Noun, determiners: str = "determiner", relative: bool = False, plain: bool = False) -> NounPhrase:
        """A phrase around a noun; `plain`: determiner and noun only."""
        determiner: str | int = self.weighted(determiners)
        mass = noun.english_plural == "-"
        plural = not mass and self.chance("plural")
        if determiner == "possessive":
            determiner = self.one(POSSESSIVES)
        elif determiner in ("many", "some", "number"):
            if mass:
                determiner = ""
            elif determiner == "number":
                determiner = 2 + int(self.random() * (98 if self.random() < 0.6 else 11))
            plural = not mass
        elif determiner == "every" and mass or determiner == "a" and mass:
            determiner = ""
        elif determiner in ("a", "every"):
            plural = False
        elif determiner == "":
            plural = not mass
        first = self.one(firsts_of(noun)) if firsts_of(noun) and self.chance("compound") else None
        item = NounPhrase(noun, determiner, plural, first=first)
        if plain:
            return item
        adjectives = adjectives_of(noun)
        if adjectives and self.chance("adjective"):
            degree = self.one(fixed_of("degree")) if self.chance("degree") else None
            item = replace(item, adjectives=(self.one(adjectives),), degree=degree)
        if adjectives_of(noun, "colour") and self.chance("colour"):
            item = replace(item, adjectives=(*item.adjectives, self.one(adjectives_of(noun, "colour"))))
        if relative and self.chance("relative"):
            item = replace(item, relative=self.relative_clause(item))
        return item

    def subject(self, kinds: tuple[str, ...], plain: bool = False) -> Nominal:
        choice = self.weighted("subject") if "person" in kinds else "phrase"
        if choice == "pronoun":
            return self.one([pronoun for english, pronoun in PRONOUNS.items() if english != "it"])
        if choice == "name":
            return Name(self.one(fixed_of("name")))
        if choice == "both":
            left, right = self.one(fixed_of("name")), self.one(fixed_of("name"))
            return Both(Name(left), Name(right)) if left != right else Name(left)
        return self.noun_phrase(self.one(nouns_of(kinds)), relative=not plain, plain=plain)

    def object(self, kinds: tuple[str, ...], determiners: str = "determiner", relative: bool = False) -> Nominal:
        choice = self.weighted("object") if "person" in kinds else "phrase"
        if choice == "pronoun":
            return self.one([PRONOUNS["he"], PRONOUNS["she"], PRONOUNS["they"]])
        if choice == "name":
            return Name(self.one(fixed_of("name")))
        return self.noun_phrase(self.one(nouns_of(kinds)), determiners, relative)

    def somewhere(self) -> Prepositional:
        preposition = self.weighted("place")
        if preposition == "city":
            return Prepositional("in", Name(self.one(fixed_of("city"))))
        noun = self.one(nouns_of((preposition,)))
        return Prepositional(preposition, self.noun_phrase(noun, "known"))

    def direction(self, verb: Verb) -> Prepositional:
        preposition = self.one(verb.objects)
        if preposition == "city":
            return Prepositional("to city", Name(self.one(fixed_of("city"))))
        kinds = {"out": ("in",), "into": ("in",), "onto": ("on",), "to": ("in", "at")}[preposition]
        noun = self.one([n for n in nouns_of(kinds) if "opening" not in n.kinds])
        return Prepositional("out of" if preposition == "out" else preposition, self.noun_phrase(noun, "known"))

    def clause(self, tense: str, subject: Nominal | None = None, last: bool = True, plain: bool = False) -> Clause:
        """A clause of its own or a subordinate one; `last`: a relative clause may end it; `plain`: no extras, no relatives."""
        frame = self.weighted("frame")
        if frame == "weather":
            return Clause(PRONOUNS["it"], self.one(verbs_of(frame)), tense if tense not in ("may", "want", "wanted") else "will")
        if frame == "be":
            return self.state(tense, subject, plain)
        verb = self.one(verbs_of(frame))
        item = Clause(subject or self.subject(verb.subjects, plain), verb, tense)
        return self.extras(self.complete(item, relative=last and not plain), plain)

    def complete(self, item: Clause, relative: bool = False) -> Clause:
        """Add what the verb needs."""
        verb = item.verb
        if verb.frame == "accusative":
            return replace(item, accusative=self.object(verb.objects, relative=relative))
        if verb.frame == "dative":
            return replace(item, dative=self.object(verb.objects, relative=relative))
        if verb.frame == "ditransitive":
            given = self.noun_phrase(self.one(nouns_of(verb.objects)), relative=relative)
            return replace(item, dative=self.object(("person",), "known"), accusative=given)
        if verb.frame == "direction":
            return replace(item, direction=self.direction(verb))
        if verb.frame == "location":
            return replace(item, place=self.somewhere())
        return item

    def state(self, tense: str, subject: Nominal | None, plain: bool) -> Clause:
        """Somebody or something is old, older than something, a teacher, forty years old, or somewhere."""
        tense = {"perfect": "present", "want": "must", "wanted": "past"}.get(tense, tense)
        kind = self.weighted("predicate")
        if subject is None:
            if kind in ("job", "age") or kind == "place" and self.random() < 0.7 or self.random() < 0.3:
                subject = self.subject(("person",), plain)
            else:
                nouns = [n for n in lexicon().nouns.values() if adjectives_of(n)]
                noun = self.one([n for n in nouns if adjectives_of(n, "comparative")] if kind == "than" else nouns)
                subject = self.noun_phrase(noun, relative=not plain, plain=plain)
        noun = subject.noun if isinstance(subject, (NounPhrase, Relative)) else lexicon().nouns["man"]
        person = "person" in noun.kinds
        item = Clause(subject, BE, tense)
        negated = self.may_negate(item) and self.chance("negated")
        if kind == "job" and person and subject.person == 1 and isinstance(subject, (NounPhrase, Name, Relative)):
            job = self.noun_phrase(self.one(nouns_of(("job",))), "job")
            item = replace(item, predicate=job)
        elif kind == "age" and person and tense in ("present", "past"):
            item = replace(item, predicate=Age(2 + int(self.random() * 98)))
        elif kind == "place" and (person or "animal" in noun.kinds or "thing" in noun.kinds):
            item = replace(item, place=self.somewhere())
        elif kind == "than" and adjectives_of(noun, "comparative"):
            than = self.one([n for n in nouns_of(noun.kinds[:1]) if n != noun] or [noun])
            adjective = self.one(adjectives_of(noun, "comparative"))
            item = replace(item, predicate=Quality(adjective, than=self.noun_phrase(than, "known", plain=True)))
        else:
            degree = self.one(fixed_of("degree")) if self.chance("degree") else None
            item = replace(item, predicate=Quality(self.one(adjectives_of(noun)), degree))
        return replace(item, negated=negated)

    def may_negate(self, item: Clause) -> bool:
        """Only where "not" can mean one thing: not beside many, some, every, no or a number; must and may change their sense."""
        phrases = [x for x in (item.subject, item.dative, item.accusative) if isinstance(x, NounPhrase)]
        plain = all(x.determiner not in QUANTITIES and not isinstance(x.determiner, int) for x in phrases)
        bare = isinstance(item.subject, NounPhrase) and item.subject.determiner == ""
        return plain and not bare and item.tense not in ("must", "may")

    def extras(self, item: Clause, plain: bool = False) -> Clause:
        """Add negation and adverbs. After an object's relative clause nothing more may come: it would seem to belong there."""
        verb, when = item.verb, time_frame(item.tense)
        if self.may_negate(item) and self.chance("negated"):
            item = replace(item, negated=True)
        said_no = item.negated or any(isinstance(x, NounPhrase) and x.determiner == "no" for x in (item.subject, item.accusative, item.dative))
        frequencies = fixed_of("frequency", when)
        if frequencies and not item.negated and self.chance("frequency"):
            frequency = self.one(frequencies)
            if not (said_no and frequency.english == "never"):
                item = replace(item, frequency=frequency)
        if plain or any(isinstance(x, NounPhrase) and x.relative for x in (item.dative, item.accusative)):
            return item
        if "manner" in verb.extras and self.chance("manner"):
            item = replace(item, manner=self.one(fixed_of("manner")))
        if ("with" in verb.extras or "for" in verb.extras) and self.chance("partner"):
            preposition = "with" if "with" in verb.extras else "for"
            item = replace(item, partner=Prepositional(preposition, self.object(("person",), "known")))
        if "place" in verb.extras and self.chance("place"):
            item = replace(item, place=self.somewhere())
        if when != "perfect" and self.chance("time"):
            item = replace(item, time=self.some_time(when))
        return item

    def some_time(self, when: str) -> Fixed | Prepositional | int:
        choice = self.random()
        if choice < 0.08:
            return 2 + int(self.random() * 11)
        if choice < 0.2 and when != "now":
            event = self.noun_phrase(self.one(nouns_of(("event",))), "event", plain=True)
            return Prepositional(self.one(("before", "after")), event)
        return self.one(fixed_of("time", when))

    def in_front(self, item: Clause) -> Clause:
        """Perhaps put an adverbial in front of a main clause, which makes German turn subject and verb round."""
        openers = fixed_of("opener", time_frame(item.tense))
        if self.chance("opener"):
            return replace(item, opener=self.one(openers), front="opener")
        if item.time is not None and self.chance("front"):
            return replace(item, front="time")
        if item.place is not None and item.verb.frame != "be" and self.chance("front"):
            return replace(item, front="place")
        return item

    def relative_clause(self, head: NounPhrase) -> Clause:
        """A short clause about a noun: who reads the book, that the woman buys, in which the man works."""
        noun, gap = head.noun, Relative(head.noun, head.plural)
        tense = self.one(("present", "present", "past"))
        choice = self.weighted("relative")
        if choice == "place" and "in" in noun.kinds:
            verb = self.one([v for v in lexicon().verbs.values() if "place" in v.extras and "person" in v.subjects])
            item = self.complete(Clause(self.subject(("person",), plain=True), verb, tense))
            return replace(item, place=Prepositional("in", gap))
        if choice == "object" and "person" in noun.kinds and self.random() < 0.3:
            return Clause(self.subject(("person",), plain=True), self.one(verbs_of("dative")), tense, dative=gap)
        verbs = verbs_of("accusative", accusative=noun)
        if verbs and (choice == "object" or not verbs_of("accusative", subject=noun)):
            verb = self.one(verbs)
            return Clause(self.subject(verb.subjects, plain=True), verb, tense, accusative=gap)
        return self.clause(tense, gap, plain=True) if "person" in noun.kinds else self.state(tense, gap, plain=True)

    def sentence(self) -> Sentence:
        period, kind = self.weighted("period"), self.weighted("sentence")
        tense = self.weighted(period)
        if kind == "question":
            return self.question(tense)
        if kind in ("that", "to"):
            verb = self.one(verbs_of(kind))
            outer = self.extras(Clause(self.subject(verb.subjects), verb, "past" if period == "past" else "present"), plain=True)
            if kind == "that":
                return Sentence(replace(outer, complement=self.clause(tense)))
            frame = self.one(("accusative", "accusative", "dative", "ditransitive", "intransitive", "direction"))
            inner = self.one([v for v in verbs_of(frame) if "person" in v.subjects])
            item = self.extras(self.complete(Clause(outer.subject, inner), relative=True))
            return Sentence(replace(outer, complement=replace(item, negated=False, frequency=None)))
        if kind == "simple":
            return Sentence(self.in_front(self.clause(tense)))
        main, other = self.in_front(self.clause(tense)), self.clause(self.weighted(period))
        if kind in ("and", "but"):
            return Sentence(main, kind, other)
        conjunction = self.weighted("conjunction " + period)
        if kind == "fronted":
            return Sentence(replace(main, front="", opener=None), conjunction, other, fronted=True)
        return Sentence(main, conjunction, other)

    def question(self, tense: str) -> Sentence:
        kind = self.weighted("question")
        item = replace(self.clause(tense, WHO if kind == "who" else None), negated=False)
        if kind == "where":
            item = replace(item, place=None)
        return Sentence(replace(item, time=None) if kind == "when" else item, question=kind)


# What is kept apart between the splits.


def combinations(node: object) -> Iterator[tuple[str, str, str]]:
    """The (verb, object), (adjective, noun) and (first, second part) combinations in a tree."""
    if isinstance(node, NounPhrase):
        for adjective in node.adjectives:
            yield "adjective", adjective.english, node.noun.english
        if node.first:
            yield "compound", node.first.english, node.noun.english
        yield from combinations(node.relative)
    elif isinstance(node, Clause):
        for item in (node.dative, node.accusative):
            if isinstance(item, (NounPhrase, Relative)):
                yield "object", node.verb.base, item.noun.english
        if isinstance(node.predicate, Quality) and isinstance(node.subject, (NounPhrase, Relative)):
            yield "adjective", node.predicate.adjective.english, node.subject.noun.english
        children = (node.subject, node.dative, node.accusative, node.direction, node.partner, node.place, node.time)
        for child in (*children, node.predicate, node.complement):
            yield from combinations(child)
    elif isinstance(node, Prepositional):
        yield from combinations(node.nominal)
    elif isinstance(node, Quality):
        yield from combinations(node.than)
    elif isinstance(node, Sentence):
        yield from combinations(node.main)
        yield from combinations(node.other)


@cache
def split_of(combination: tuple[str, str, str]) -> Split:
    """The split that owns a combination: a hash deals 90 % to train and 5 % each to valid and test."""
    digest = hashlib.sha256(" ".join(combination).encode()).digest()
    return {0: "test", 1: "valid"}.get(int.from_bytes(digest[:4], "big") % 20, "train")  # type: ignore[return-value]


def sentence_split(sentence: Sentence) -> Split | None:
    """The split a sentence belongs to; none if it mixes combinations of valid and of test."""
    owners = {split_of(combination) for combination in combinations(sentence)} - {"train"}
    return None if len(owners) > 1 else next(iter(owners), "train")


def pairs(split: Split, count: int, seed: int = 0) -> list[Pair]:
    """The first `count` pairs of a split: all different, and the same wherever they are made.

    Raises ValueError for an unknown split or a negative count.
    """
    if split not in ("train", "valid", "test"):
        raise ValueError(f"unknown split {split!r}: choose train, valid or test")
    if count < 0:
        raise ValueError(f"count must not be negative: {count}")
    chooser = Chooser(f"pocket {split} {seed}")
    found: dict[str, Pair] = {}
    while len(found) < count:
        sentence = chooser.sentence()
        if sentence_split(sentence) == split:
            pair = say(sentence)
            if max(len(pair.source_words), len(pair.target_words)) <= LONGEST:
                found.setdefault(pair.source, pair)
    return list(found.values())


def count_lemmas() -> int:
    """How many lexemes the grammar knows: the lines of its lexicon and the function words above."""
    words = lexicon()
    listed = [words.nouns, words.firsts, words.adjectives, words.colours, words.verbs, *words.fixed.values()]
    return sum(map(len, listed)) + sum(map(len, (DETERMINERS, PRONOUNS, PREPOSITIONS, MODALS, CONJUNCTIONS, QUESTIONS)))


def language_size() -> int:
    """A lower bound of the number of different pairs: it counts the sentences "the young man reads an old book" alone.

    They are: the, a or a possessive; an adjective or none; a noun in the singular; a transitive verb in the present; and an
    object of the same shape. The verb's form tells where the subject ends, so all of them differ.
    """

    def phrases(nouns: Sequence[Noun]) -> int:
        return sum((2 + len(POSSESSIVES)) * (1 + len(adjectives_of(n))) for n in nouns if n.english_plural != "-")

    return sum(phrases(nouns_of(v.subjects)) * phrases(nouns_of(v.objects)) for v in verbs_of("accusative"))
