"""The grammar behind the embedded corpus: each rule writes English and German at once, and so knows the word alignment.

A grammar that does so is called *synchronous*. A rule returns a `Phrase`: some English and some German words. A `Word`
knows the *ideas* that it expresses, and two words are aligned when they share an idea. So a rule may order either
side as its grammar wants, and the alignment follows by itself. From the bottom up:

1. the lexicon (`pocket_lexicon.tsv`), and the endings and forms of German;
2. the tree of a sentence: what is to be said, in neither language yet (`NounPhrase`, `Clause`, `Sentence`, ...);
3. the rules: `say` turns a tree into a `Pair`.

Alignment: words that say something together are linked each with each ("opens" with "macht" and "auf", "kitchen" and
"table" with "Küchentisch", "not" and "a" with "kein", "bought" with "hat" and "gekauft"). Only a comma that German has
alone is linked to nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple


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
    """A noun with its forms. `kinds` decide which verbs and adjectives suit it."""

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
    """An adjective or a colour; `kinds` are those of the nouns it suits, "-" a missing comparative."""

    english: str
    german: str
    stem: str  # what the endings are put to: dunkel, but ein dunkler Wald
    kinds: tuple[str, ...]
    english_comparative: str = "-"
    german_comparative: str = "-"


class Verb(NamedTuple):
    """A verb: its English forms, its German forms, and what goes with it."""

    base: str
    present: str
    past: str
    participle: str
    infinitive: str  # without the prefix
    prefix: str  # of a separable verb, or ""
    german_present: str  # with er, sie, es
    german_participle: str
    auxiliary: str
    frame: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    extras: tuple[str, ...]
    german_past: str = "-"  # with er; the few verbs that keep the simple past


class Fixed(NamedTuple):
    """An adverb or a name. The words of both languages correspond one to one; "_" joins words that do so together."""

    english: str
    german: str
    when: tuple[str, ...] = ()


class Pronoun(NamedTuple):
    """A pronoun by case: I, me; ich, mich, mir. Persons: 0 = I, 1 = he, she, it, 2 = we, they."""

    english: tuple[str, str]
    german: tuple[str, str, str]
    person: int


@dataclass(frozen=True)
class Lexicon:
    """All the words."""

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
    for line in resources.files("transformer.data.pocket").joinpath("lexicon.tsv").read_text("utf-8").splitlines():
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
            stem = stem or alone.removesuffix("e")
            place = words.adjectives if kind == "adjective" else words.colours
            place[english] = Adjective(english, alone, stem, tuple(kinds.split()), *comparatives)
        elif kind == "verb":
            infinitive, present, participle, auxiliary, frame, subjects, objects, extras, past = rest
            size = len(english.split()) // 4
            forms = [" ".join(english.split()[i * size : (i + 1) * size]) for i in range(4)]
            prefix, _, stem = infinitive.rpartition("|")
            words.verbs[forms[0], frame] = Verb(
                *(forms[0], forms[1], forms[2], forms[3], stem, prefix, present, participle, auxiliary, frame),
                *(tuple(subjects.split()), tuple(objects.split()), tuple(extras.split()), past),
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
# After a determiner that shows them, adjectives have the weak endings: -e here, -en elsewhere.
WEAK_E = (
    *(("nominative", "der"), ("nominative", "die"), ("nominative", "das")),
    *(("accusative", "die"), ("accusative", "das")),
)
# English determiner -> (German stem, what follows it). "strong" shows the ending itself; "ein" none in three places;
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

# Verb forms by person.
Forms = tuple[str, str, str]
HABEN: Forms = ("habe", "hat", "haben")
SEIN: Forms = ("bin", "ist", "sind")
WAR: Forms = ("war", "war", "waren")
BE = Verb("be", "is", "was", "been", "sein", "", "ist", "gewesen", "sein", "be", (), (), ())


class Modal(NamedTuple):
    """A modal verb in both languages; "will", werden, works like one."""

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


@dataclass(eq=False)
class NounPhrase:
    """The very old kitchen table that ..."""

    noun: Noun
    determiner: str | int = "the"  # of DETERMINERS, a number from 2, or "" for none
    plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    first: First | None = None
    degree: Fixed | None = None  # "very", for the first adjective
    relative: Clause | None = None  # one of its places holds a Relative

    @property
    def person(self) -> int:
        """The person of its verb."""
        return 2 if self.plural else 1


@dataclass(eq=False)
class Relative:
    """The place in a relative clause that the noun would have."""

    noun: Noun
    plural: bool = False

    @property
    def person(self) -> int:
        """The person of its verb."""
        return 2 if self.plural else 1


@dataclass(eq=False)
class Name:
    """Anna, Berlin."""

    name: Fixed
    person: int = 1


@dataclass(eq=False)
class Both:
    """The boy and the girl."""

    left: Nominal
    right: Nominal
    person: int = 2


Nominal = NounPhrase | Name | Pronoun | Both | Relative


class Prepositional(NamedTuple):
    """In the garden."""

    preposition: str
    nominal: Nominal


class Quality(NamedTuple):
    """A predicate: "is very old", "is older than the church"."""

    adjective: Adjective
    degree: Fixed | None = None
    than: Nominal | None = None


class Age(NamedTuple):
    """A predicate: "is forty years old"."""

    years: int


@dataclass(eq=False)
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


@dataclass(eq=False)
class Sentence:
    """One or two clauses. `fronted`: the conjunction comes first. `question`: "yes", "who" or a key of QUESTIONS."""

    main: Clause
    conjunction: str = ""
    other: Clause | None = None
    fronted: bool = False
    question: str = ""


# ---------------------------------------------------------------------------------------- 3. the rules


class Word(NamedTuple):
    """A word and the ideas it expresses."""

    text: str
    ideas: tuple[int, ...] = ()


Words = list[Word]
_new_idea = itertools.count().__next__
COMMA = Word(",")


class Phrase(NamedTuple):
    """Both sides of a part of a sentence; `later`: German words that wait until the verb is complete."""

    english: Words
    german: Words
    later: Words


NOTHING = Phrase([], [], [])


def spell(text: str, *ideas: int) -> Words:
    """The words of a text, all with the same ideas."""
    return [Word(word, ideas) for word in text.split(" ")]


def unit(english: str, german: str) -> Phrase:
    """Words that together mean one thing: each is linked with each."""
    idea = _new_idea()
    return Phrase(spell(english, idea), spell(german, idea), [])


def chain(*phrases: Phrase) -> Phrase:
    """One phrase after the other, on both sides."""
    english, german, later = ([word for phrase in phrases for word in phrase[side]] for side in range(3))
    return Phrase(english, german, later)


def say_fixed(item: Fixed) -> Phrase:
    """An adverb or name, word by word."""
    parts = zip(item.english.split(), item.german.split(), strict=True)
    return chain(*(unit(english.replace("_", " "), german.replace("_", " ")) for english, german in parts))


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
    """Der, die, das, with one form of its own: denen."""
    if item.plural and case == "dative":
        return "denen"
    return ARTICLE[case]["plural" if item.plural else item.noun.gender]


def say_determiner(item: NounPhrase, case: Case, gender: str, negation: int | None) -> tuple[Phrase, bool]:
    """The determiner, and whether it shows gender and case: if not, the adjectives must."""
    determiner = item.determiner
    if isinstance(determiner, int):
        return unit(*number(determiner)), False
    if not determiner and negation is None:
        return NOTHING, False
    stem, kind = DETERMINERS[determiner if negation is None else "no"]
    bare = kind == "ein" and (gender == "das" and case != "dative" or gender == "der" and case == "nominative")
    german = ARTICLE[case][gender] if kind == "article" else stem + ("" if bare else STRONG[case][gender])
    idea = _new_idea()
    english = spell("these" if item.plural and determiner == "this" else determiner, idea) if determiner else []
    ideas = (idea,) if negation is None else (idea, negation)
    return Phrase(english, spell(german, *ideas), []), not bare and kind != "quantity"


def say_noun_phrase(item: NounPhrase, case: Case, negation: int | None = None) -> Phrase:
    """Determiner, adjectives, noun and relative clause, all agreeing."""
    gender = "plural" if item.plural else item.noun.gender
    determiner, shown = say_determiner(item, case, gender, negation)
    ending = STRONG[case][gender]
    if shown:
        ending = "e" if (case, gender) in WEAK_E else "en"
    degree = say_fixed(item.degree) if item.degree else NOTHING
    adjectives = [unit(a.english, a.stem + ending) for a in item.adjectives]
    english, german, _ = chain(determiner, degree, *adjectives, say_noun(item, case))
    if english[0].text == "a" and english[1].text[0] in "aeiou":
        english[0] = english[0]._replace(text="an")
    if item.relative is None:
        return Phrase(english, german, [])
    clause = say_clause(item.relative, "final")
    return Phrase(english + clause.english, german, [COMMA, *clause.german, COMMA])


def say_noun(item: NounPhrase, case: Case) -> Phrase:
    """The noun itself; the parts of a compound are one German word."""
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
        merged = spell(CONTRACTIONS[both], *outer.german[0].ideas, *inner.german[0].ideas)
        return Phrase(outer.english + inner.english, merged + inner.german[1:], inner.later)
    return chain(outer, inner)


def say_time(item: Fixed | Prepositional | int) -> Phrase:
    """Yesterday, before the concert, at eight o'clock."""
    if isinstance(item, int):
        return chain(unit("at", "um"), unit(*number(item)), unit("o'clock", "Uhr"))
    return say_fixed(item) if isinstance(item, Fixed) else say_prepositional(item)


def say_predicate(item: Quality | Age | NounPhrase, negation: int | None) -> Phrase:
    """What somebody or something is."""
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


def german_past(verb: Verb, person: int) -> str:
    """The simple past: ich wohnte, sie wohnten; ich stand, sie standen."""
    if verb is BE:
        return WAR[person]
    ending = "" if person != 2 else "n" if verb.german_past.endswith("e") else "en"
    return verb.german_past + ending


class VerbPhrase(NamedTuple):
    """A verb in two pieces: English auxiliary and rest, German finite verb and what ends the clause."""

    auxiliary: Words
    rest: Words
    finite: Words
    end: Words


def say_verb(clause: Clause, asks: bool, negation: int | None) -> VerbPhrase:
    """The verb in its tense. "does", "has", "will" share one idea with the finite verb; what the verb means is another.

    English needs an auxiliary to ask or to deny, and takes "do" if there is none. German says the past in the perfect.
    """
    verb, tense, person = clause.verb, clause.tense, clause.subject.person
    finite, meaning = _new_idea(), _new_idea()
    needed = asks or negation is not None
    does, past = "does" if person == 1 else "do", verb is BE or verb.german_past != "-"
    if tense in MODALS:
        modal = MODALS[tense]
        auxiliary, rest = spell(modal.english[person], finite), spell(verb.base, meaning)
        if modal.base and needed:
            auxiliary, rest = spell("did" if modal.past else does, finite), spell(modal.base, finite) + rest
        elif modal.base:
            auxiliary, rest = [], auxiliary + rest
        german, end = spell(modal.german[person], finite), spell(verb.prefix + verb.infinitive, meaning)
    elif tense == "perfect" or tense == "past" and not past:
        german = spell((SEIN if verb.auxiliary == "sein" else HABEN)[person], finite)
        end = spell(verb.german_participle, meaning)
        auxiliary, rest = spell("has" if person == 1 else "have", finite), spell(verb.participle, meaning)
        if tense == "past":
            auxiliary, rest = spell("did", finite), spell(verb.base, meaning)
    else:
        german = spell((german_past if tense == "past" else german_present)(verb, person), finite, meaning)
        end = spell(verb.prefix, meaning) if verb.prefix else []
        auxiliary, rest = spell("did" if tense == "past" else does, finite), spell(verb.base, meaning)
    if verb is BE and tense in ("present", "past"):
        forms = ("am", "is", "are") if tense == "present" else ("was", "was", "were")
        auxiliary, rest = spell(forms[person], finite, meaning), []
    elif tense in ("present", "past") and not needed:
        form = verb.past if tense == "past" else verb.present if person == 1 else verb.base
        auxiliary, rest = [], spell(form, finite, meaning)
    if negation is not None:
        cannot = auxiliary[0].text == "can"
        auxiliary = spell("cannot", finite, negation) if cannot else [*auxiliary, *spell("not", negation)]
    return VerbPhrase(auxiliary, rest, german, end)


def is_definite(item: Nominal) -> bool:
    """Whether the listener knows already which one is meant."""
    return not isinstance(item, NounPhrase) or item.determiner in DEFINITE


def takes_kein(item: object) -> bool:
    """Not a book -> kein Buch; not ... books -> keine Bücher."""
    return isinstance(item, NounPhrase) and item.determiner in ("a", "")


Order = Literal["second", "question", "inverted", "final", "to"]


def say_clause(clause: Clause, order: Order, opening: Phrase = NOTHING) -> Phrase:
    """A clause. Its order says where German puts the finite verb.

    - "second": main clauses;
    - "question": first, and before the subject in English too;
    - "inverted": first, since another clause stands in front;
    - "final": last, after `opening` or a relative pronoun;
    - "to": the infinitive, without a subject.
    """
    negation = _new_idea() if clause.negated else None
    kein = next((x for x in (clause.accusative, clause.dative, clause.predicate) if takes_kein(x)), None)

    def nominal(item: Nominal | None, case: Case) -> Phrase:
        return say_nominal(item, case, negation if item is kein else None) if item else NOTHING

    parts = {
        "subject": nominal(clause.subject, "nominative") if order != "to" else NOTHING,
        "dative": nominal(clause.dative, "dative"),
        "accusative": nominal(clause.accusative, "accusative"),
        "time": say_time(clause.time) if clause.time is not None else NOTHING,
        "complement": say_complement(clause),
    }
    if clause.predicate:
        parts["predicate"] = say_predicate(clause.predicate, negation if clause.predicate is kein else None)
    for name in ("direction", "partner", "place"):
        parts[name] = say_prepositional(getattr(clause, name)) if getattr(clause, name) else NOTHING
    for name in ("frequency", "manner", "opener"):
        parts[name] = say_fixed(getattr(clause, name)) if getattr(clause, name) else NOTHING
    front = parts.pop(front_of(clause), NOTHING)

    def english(*names: str) -> Words:
        return [word for name in names if name in parts for word in parts[name].english]

    def german(*names: str) -> Words:
        return [word for name in names if name in parts for word in parts[name].german]

    verb = say_verb(clause, order == "question", negation)
    if order == "to":
        verb = to_infinitive(clause.verb)
    subject = verb.auxiliary + english("subject") if order == "question" else english("subject") + verb.auxiliary
    source = [
        *(opening.english + front.english + subject + english("frequency") + verb.rest),
        *english("dative", "accusative", "predicate", "direction", "manner", "partner", "place", "time", "complement"),
    ]

    # The German middle field: what is known comes early, what is new comes late; "nicht" stands between them.
    objects = [name for name in ("dative", "accusative") if name in parts and getattr(clause, name)]
    pronouns = [name for name in objects if isinstance(getattr(clause, name), Pronoun)]
    known = [name for name in objects if name not in pronouns and is_definite(getattr(clause, name))]
    new = [name for name in objects if name not in pronouns + known]
    early = clause.frequency is not None and "early" in clause.frequency.when
    middle = [
        *(german(*pronouns, "frequency", *known, "time") if early else german(*pronouns, *known, "time", "frequency")),
        *(spell("nicht", negation) if negation is not None and kein is None else []),
        *german("manner", "partner", "place", *new, "predicate", "direction"),
    ]
    waiting = ("dative", "accusative", "predicate", "complement")
    later = [word for name in waiting if name in parts for word in parts[name].later]
    own = german("subject") + (parts["subject"].later if "subject" in parts else [])
    if order == "second":
        target = [*(front.german + verb.finite + own if front.german else own + verb.finite), *middle, *verb.end]
    elif order in ("question", "inverted"):
        target = [*opening.german, *verb.finite, *own, *middle, *verb.end]
    elif order == "to":
        target = middle + verb.end
    else:
        target = [*opening.german, *front.german, *own, *middle, *verb_final(verb)]
    return Phrase(source, target + later, [])


def front_of(clause: Clause) -> str:
    """The part that stands in front in both languages: a relative pronoun, or what `front` names."""
    for name in ("subject", "dative", "accusative", "partner", "place"):
        part = getattr(clause, name)
        if isinstance(part.nominal if isinstance(part, Prepositional) else part, Relative):
            return name
    return clause.front


def verb_final(verb: VerbPhrase) -> Words:
    """The verb at the end: "macht ... auf" becomes one word, "aufmacht"; auxiliaries and modals come last."""
    if verb.end and verb.end[0].ideas[0] in verb.finite[0].ideas:
        return [Word(verb.end[0].text + verb.finite[0].text, verb.finite[0].ideas)]
    return verb.end + verb.finite


def to_infinitive(verb: Verb) -> VerbPhrase:
    """To open -> aufzumachen, to read -> zu lesen."""
    to, meaning = _new_idea(), _new_idea()
    one_word = spell(f"{verb.prefix}zu{verb.infinitive}", to, meaning)
    two_words = spell("zu", to) + spell(verb.infinitive, meaning)
    return VerbPhrase(spell("to", to), spell(verb.base, meaning), [], one_word if verb.prefix else two_words)


def say_complement(clause: Clause) -> Phrase:
    """What is said, tried, ...; in German it waits for the end of the verb."""
    if clause.complement is None:
        return NOTHING
    if clause.verb.frame == "that":
        inner = say_clause(clause.complement, "final", unit("that", CONJUNCTIONS["that"]))
    else:
        inner = say_clause(clause.complement, "to")
    return Phrase(inner.english, [], [COMMA, *inner.german, COMMA])


def say(sentence: Sentence) -> Pair:
    """Both sides of a sentence and their alignment."""
    main, other = sentence.main, sentence.other
    stop = unit("?", "?") if sentence.question else unit(".", ".")
    comma = unit(",", ",")
    if sentence.question and main.subject is not WHO:
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
            whole = chain(say_clause(main, "second"), Phrase([], [COMMA], []), subordinate)
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
    """Words to text: no space before a comma or at the end."""
    return "".join(word if word in (",", ".", "?") else " " + word for word in words).strip()
