"""The grammar of the pocket corpus. Each rule generates English and German together, so the word alignment is known.

Such a grammar is called *synchronous*. A rule returns a `Phrase` with English and German words. Each `Word` has the
*concepts* that it expresses, and two words are aligned if they share a concept. A rule may therefore use any word order
on either side; the alignment follows automatically. From the bottom up, this module contains:

1. the lexicon (``lexicon.tsv``), and the endings and forms of German words;
2. the syntax tree of a sentence, which is independent of the language (`NounPhrase`, `Clause`, `Sentence`, ...);
3. the rules: `render` turns a tree into an `AlignedPair`.

Words that express a concept together are all aligned with each other: "opens" with "macht" and "auf", "kitchen" and
"table" with "Küchentisch", "not" and "a" with "kein", "bought" with "hat" and "gekauft". Only a comma that exists in
German alone is not aligned.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class AlignedPair:
    """A sentence and its translation; `alignment` contains sorted (source word, target word) indices, from 0."""

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...]


# ---------------------------------------------------------------------------------------- 1. words and their forms

Case = Literal["nominative", "accusative", "dative"]


class Noun(NamedTuple):
    """A noun with its forms. `kinds` are semantic classes that determine which verbs and adjectives fit it."""

    english: str
    english_plural: str
    gender: str  # by its article: "der", "die" or "das"
    german: str
    german_oblique: str  # the singular outside the nominative: differs for weak nouns (der Junge, den Jungen)
    german_plural: str
    kinds: tuple[str, ...]


class CompoundModifier(NamedTuple):
    """The first part of a compound: "kitchen" and "Küchen" in "kitchen table" and "Küchentisch"."""

    english: str
    german: str
    group: str


class Adjective(NamedTuple):
    """An adjective or a colour. `kinds` are those of the nouns it fits; "-" means that there is no comparative."""

    english: str
    german: str
    stem: str  # without ending: dunkel, but ein dunkler Wald
    kinds: tuple[str, ...]
    english_comparative: str = "-"
    german_comparative: str = "-"


class Verb(NamedTuple):
    """A verb: its English and German forms, and the arguments and adverbials it takes."""

    base: str
    present: str
    past: str
    participle: str
    infinitive: str  # without the prefix
    prefix: str  # of a separable verb, or ""
    german_present: str  # with er, sie, es
    german_participle: str
    auxiliary: str  # "haben" or "sein"
    frame: str  # the arguments it requires, such as "accusative", "ditransitive" or "direction"
    subject_kinds: tuple[str, ...]
    object_kinds: tuple[str, ...]  # or the prepositions of its direction
    features: tuple[str, ...]  # the adverbials it may have: manner, place, with, for; and "state" if it describes one
    german_past: str = "-"  # with er; only for verbs that use the simple past


class Invariable(NamedTuple):
    """An adverb or a name, which is not inflected. Words correspond one to one; "_" joins multi-word units."""

    english: str
    german: str
    tags: tuple[str, ...] = ()  # the tenses or times it fits, "early" in the German clause, or the gender of a name


class Pronoun(NamedTuple):
    """A pronoun by case: I, me; ich, mich, mir. ``person`` is the form of the verb: 0: I, 1: he, she, it, 2: plural."""

    english: tuple[str, str]
    german: tuple[str, str, str]
    person: int


@dataclass(frozen=True)
class Lexicon:
    """All words, by their English form."""

    nouns: dict[str, Noun] = field(default_factory=dict)
    modifiers: dict[str, CompoundModifier] = field(default_factory=dict)
    adjectives: dict[str, Adjective] = field(default_factory=dict)
    colours: dict[str, Adjective] = field(default_factory=dict)
    verbs: dict[tuple[str, str], Verb] = field(default_factory=dict)  # by (base, frame)
    invariables: dict[str, dict[str, Invariable]] = field(default_factory=dict)  # by kind (name, time, ...) and word


@cache
def lexicon() -> Lexicon:
    """Read ``lexicon.tsv``."""
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
        elif kind == "modifier":
            words.modifiers[english] = CompoundModifier(english, *rest)
        elif kind in ("adjective", "colour"):
            german, kinds, *comparatives = rest
            alone, _, stem = german.partition("/")
            stem = stem or alone.removesuffix("e")
            table = words.adjectives if kind == "adjective" else words.colours
            table[english] = Adjective(english, alone, stem, tuple(kinds.split()), *comparatives)
        elif kind == "verb":
            german, german_present, german_participle, auxiliary, frame, subjects, objects, features, past = rest
            n_words = len(english.split()) // 4  # of each form
            base, present, english_past, participle = (
                " ".join(english.split()[i * n_words : (i + 1) * n_words]) for i in range(4)
            )
            prefix, _, infinitive = german.rpartition("|")
            words.verbs[base, frame] = Verb(
                base=base,
                present=present,
                past=english_past,
                participle=participle,
                infinitive=infinitive,
                prefix=prefix,
                german_present=german_present,
                german_participle=german_participle,
                auxiliary=auxiliary,
                frame=frame,
                subject_kinds=tuple(subjects.split()),
                object_kinds=tuple(objects.split()),
                features=tuple(features.split()),
                german_past=past,
            )
        else:
            tags = tuple(rest[1].split()) if len(rest) > 1 else ()
            words.invariables.setdefault(kind, {})[english] = Invariable(english, rest[0], tags)
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
# After a determiner that shows them, adjectives have the weak endings: -e for these genders, -en for all others.
WEAK_E = {"nominative": ("der", "die", "das"), "accusative": ("die", "das"), "dative": ()}
# English determiner -> (German stem, declension). "strong" has the strong endings; "ein" has none in three forms;
# "quantity" is declined like an adjective, and the adjectives after it keep the strong endings too.
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
DEFINITE = ("the", "this", *POSSESSIVES)  # known to the listener: German puts such objects early
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


def number_words(value: int) -> tuple[str, str]:
    """A number from 2 to 99 in words: twenty-one, einundzwanzig."""
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
    modifier: CompoundModifier | None = None
    degree: Invariable | None = None  # "very", for the first adjective
    relative: Clause | None = None  # with a RelativeGap as one of its parts

    @property
    def person(self) -> int:
        """The form of its verb, as in `Pronoun`."""
        return 2 if self.plural else 1


@dataclass(eq=False)
class RelativeGap:
    """The gap in a relative clause, which stands for the noun it describes."""

    noun: Noun
    plural: bool = False

    @property
    def person(self) -> int:
        """The form of its verb, as in `Pronoun`."""
        return 2 if self.plural else 1


@dataclass(eq=False)
class Name:
    """Anna, Berlin."""

    name: Invariable
    person: int = 1


@dataclass(eq=False)
class Coordination:
    """The boy and the girl."""

    left: Nominal
    right: Nominal
    person: int = 2


Nominal = NounPhrase | Name | Pronoun | Coordination | RelativeGap


class Prepositional(NamedTuple):
    """In the garden."""

    preposition: str
    nominal: Nominal


class AdjectivePredicate(NamedTuple):
    """A predicate: "is very old", "is older than the church"."""

    adjective: Adjective
    degree: Invariable | None = None
    than: Nominal | None = None


class AgePredicate(NamedTuple):
    """A predicate: "is forty years old"."""

    years: int


@dataclass(eq=False)
class Clause:
    """A clause. `tense`: present, past, perfect or a key of MODALS. `front`: part before the subject."""

    subject: Nominal
    verb: Verb
    tense: str = "present"
    negated: bool = False
    dative: Nominal | None = None
    accusative: Nominal | None = None
    predicate: AdjectivePredicate | AgePredicate | NounPhrase | None = None
    direction: Prepositional | None = None
    partner: Prepositional | None = None  # with somebody, for somebody
    place: Prepositional | None = None
    time: Invariable | Prepositional | int | None = None  # a number is an hour
    frequency: Invariable | None = None
    manner: Invariable | None = None
    opener: Invariable | None = None
    front: Literal["", "time", "place", "opener"] = ""
    complement: Clause | None = None  # of "say that", "try to"


@dataclass(eq=False)
class Sentence:
    """One or two clauses. `fronted`: subordinate clause first. `question`: "yes", "who" or a key of QUESTIONS."""

    main: Clause
    conjunction: str = ""
    other: Clause | None = None
    fronted: bool = False
    question: str = ""


# ---------------------------------------------------------------------------------------- 3. the rules


class Word(NamedTuple):
    """A word and the concepts it expresses."""

    text: str
    concepts: tuple[int, ...] = ()


Words = list[Word]
_new_concept = itertools.count().__next__
COMMA = Word(",")


class Phrase(NamedTuple):
    """A part of a sentence in both languages. `extraposed`: German words that follow the end of the clause."""

    english: Words
    german: Words
    extraposed: Words


EMPTY = Phrase([], [], [])


def make_words(text: str, *concepts: int) -> Words:
    """Split a text into words that all have the same concepts."""
    return [Word(word, concepts) for word in text.split(" ")]


def aligned(english: str, german: str) -> Phrase:
    """Words that express one concept together: every English word is aligned with every German word."""
    concept = _new_concept()
    return Phrase(make_words(english, concept), make_words(german, concept), [])


def concatenate(*phrases: Phrase) -> Phrase:
    """Concatenate phrases in both languages."""
    english, german, extraposed = ([word for phrase in phrases for word in phrase[side]] for side in range(3))
    return Phrase(english, german, extraposed)


def render_invariable(item: Invariable) -> Phrase:
    """Render an adverb or name, word by word."""
    parts = zip(item.english.split(), item.german.split(), strict=True)
    return concatenate(*(aligned(english.replace("_", " "), german.replace("_", " ")) for english, german in parts))


def render_nominal(item: Nominal, case: Case = "nominative", negation: int | None = None) -> Phrase:
    """Render a noun phrase, name or pronoun in a case. `negation`: the concept of "not", if "kein" expresses it."""
    if isinstance(item, Pronoun):
        german = item.german[("nominative", "accusative", "dative").index(case)]
        return aligned(item.english[case != "nominative"], german)
    if isinstance(item, Name):
        return render_invariable(item.name)
    if isinstance(item, Coordination):
        return concatenate(render_nominal(item.left, case), aligned("and", "und"), render_nominal(item.right, case))
    if isinstance(item, RelativeGap):
        human = "person" in item.noun.kinds
        english = ("who" if case == "nominative" else "whom") if human else "that"
        return aligned(english, relative_pronoun(item, case))
    return render_noun_phrase(item, case, negation)


def relative_pronoun(item: RelativeGap, case: Case) -> str:
    """Der, die, das, with one form of its own: denen."""
    if item.plural and case == "dative":
        return "denen"
    return ARTICLE[case]["plural" if item.plural else item.noun.gender]


def render_determiner(item: NounPhrase, case: Case, gender: str, negation: int | None) -> tuple[Phrase, bool]:
    """Render the determiner. Also return whether its ending shows gender and case: if not, the adjectives do."""
    determiner = item.determiner
    if isinstance(determiner, int):
        return aligned(*number_words(determiner)), False
    if not determiner and negation is None:
        return EMPTY, False
    stem, kind = DETERMINERS[determiner if negation is None else "no"]
    bare = kind == "ein" and (gender == "das" and case != "dative" or gender == "der" and case == "nominative")
    german = ARTICLE[case][gender] if kind == "article" else stem + ("" if bare else STRONG[case][gender])
    concept = _new_concept()
    english = make_words("these" if item.plural and determiner == "this" else determiner, concept) if determiner else []
    concepts = (concept,) if negation is None else (concept, negation)
    return Phrase(english, make_words(german, *concepts), []), not bare and kind != "quantity"


def render_noun_phrase(item: NounPhrase, case: Case, negation: int | None = None) -> Phrase:
    """Render determiner, adjectives, noun and relative clause, with agreement."""
    gender = "plural" if item.plural else item.noun.gender
    determiner, shows_case = render_determiner(item, case, gender, negation)
    ending = STRONG[case][gender]
    if shows_case:
        ending = "e" if gender in WEAK_E[case] else "en"
    degree = render_invariable(item.degree) if item.degree else EMPTY
    adjectives = [aligned(a.english, a.stem + ending) for a in item.adjectives]
    english, german, _ = concatenate(determiner, degree, *adjectives, render_noun(item, case))
    if english[0].text == "a" and english[1].text[0] in "aeiou":
        english[0] = english[0]._replace(text="an")
    if item.relative is None:
        return Phrase(english, german, [])
    clause = render_clause(item.relative, "final")
    return Phrase(english + clause.english, german, [COMMA, *clause.german, COMMA])


def render_noun(item: NounPhrase, case: Case) -> Phrase:
    """Render the noun. In German, the parts of a compound form a single word."""
    noun = item.noun
    if item.plural:
        english, german = noun.english_plural, noun.german_plural
        if case == "dative" and german[-1] not in "ns":
            german += "n"
    else:
        english, german = noun.english, noun.german if case == "nominative" else noun.german_oblique
    if item.modifier:
        english, german = f"{item.modifier.english} {english}", item.modifier.german + german.lower()
    return aligned(english, german)


def render_prepositional(item: Prepositional) -> Phrase:
    """Render preposition and noun phrase, with contractions: in dem -> im."""
    german, case = PREPOSITIONS[item.preposition]
    nominal = item.nominal
    inner = render_nominal(nominal, case)
    outer = aligned(item.preposition.removesuffix(" city"), german)
    if isinstance(nominal, RelativeGap):  # the house in which, the woman with whom
        whom = "whom" if "person" in nominal.noun.kinds else "which"
        inner.english[0] = inner.english[0]._replace(text=whom)
    both = f"{german} {inner.german[0].text}"
    if isinstance(nominal, NounPhrase) and nominal.determiner == "the" and both in CONTRACTIONS:
        merged = make_words(CONTRACTIONS[both], *outer.german[0].concepts, *inner.german[0].concepts)
        return Phrase(outer.english + inner.english, merged + inner.german[1:], inner.extraposed)
    return concatenate(outer, inner)


def render_time(item: Invariable | Prepositional | int) -> Phrase:
    """Render an adverbial of time: yesterday, before the concert, at eight o'clock."""
    if isinstance(item, int):
        return concatenate(aligned("at", "um"), aligned(*number_words(item)), aligned("o'clock", "Uhr"))
    return render_invariable(item) if isinstance(item, Invariable) else render_prepositional(item)


def render_predicate(item: AdjectivePredicate | AgePredicate | NounPhrase, negation: int | None) -> Phrase:
    """Render the predicate after "be"."""
    if isinstance(item, NounPhrase):
        return render_noun_phrase(item, "nominative", negation)
    if isinstance(item, AgePredicate):
        return concatenate(aligned(*number_words(item.years)), aligned("years", "Jahre"), aligned("old", "alt"))
    if item.than:
        comparative = aligned(item.adjective.english_comparative, item.adjective.german_comparative)
        return concatenate(comparative, aligned("than", "als"), render_nominal(item.than))
    degree = render_invariable(item.degree) if item.degree else EMPTY
    return concatenate(degree, aligned(item.adjective.english, item.adjective.german))


def german_present(verb: Verb, person: int) -> str:
    """The present tense: ich mache, ich sammle, er macht, sie machen."""
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
    """A verb in two parts: the auxiliary and the rest in English, the finite verb and the rest in German."""

    auxiliary: Words
    rest: Words
    finite: Words
    end: Words


def render_verb(clause: Clause, is_question: bool, negation: int | None) -> VerbPhrase:
    """Render the verb in its tense.

    Two concepts are used: one for the finite verb and for "does", "has" and "will", the other for the verb's meaning.
    English needs an auxiliary in questions and negations: "do", if there is no other. German uses the perfect for the
    past of most verbs.
    """
    verb, tense, person = clause.verb, clause.tense, clause.subject.person
    finite, meaning = _new_concept(), _new_concept()
    needs_auxiliary = is_question or negation is not None
    does = "does" if person == 1 else "do"
    has_german_past = verb is BE or verb.german_past != "-"
    if tense in MODALS:
        modal = MODALS[tense]
        auxiliary, rest = make_words(modal.english[person], finite), make_words(verb.base, meaning)
        if modal.base and needs_auxiliary:
            auxiliary, rest = make_words("did" if modal.past else does, finite), make_words(modal.base, finite) + rest
        elif modal.base:
            auxiliary, rest = [], auxiliary + rest
        german, end = make_words(modal.german[person], finite), make_words(verb.prefix + verb.infinitive, meaning)
    elif tense == "perfect" or tense == "past" and not has_german_past:
        german = make_words((SEIN if verb.auxiliary == "sein" else HABEN)[person], finite)
        end = make_words(verb.german_participle, meaning)
        auxiliary, rest = make_words("has" if person == 1 else "have", finite), make_words(verb.participle, meaning)
        if tense == "past":
            auxiliary, rest = make_words("did", finite), make_words(verb.base, meaning)
    else:
        german = make_words((german_past if tense == "past" else german_present)(verb, person), finite, meaning)
        end = make_words(verb.prefix, meaning) if verb.prefix else []
        auxiliary, rest = make_words("did" if tense == "past" else does, finite), make_words(verb.base, meaning)
    if verb is BE and tense in ("present", "past"):
        forms = ("am", "is", "are") if tense == "present" else ("was", "was", "were")
        auxiliary, rest = make_words(forms[person], finite, meaning), []
    elif tense in ("present", "past") and not needs_auxiliary:
        form = verb.past if tense == "past" else verb.present if person == 1 else verb.base
        auxiliary, rest = [], make_words(form, finite, meaning)
    if negation is not None:
        cannot = auxiliary[0].text == "can"
        auxiliary = make_words("cannot", finite, negation) if cannot else [*auxiliary, *make_words("not", negation)]
    return VerbPhrase(auxiliary, rest, german, end)


def is_definite(item: Nominal) -> bool:
    """Whether the listener knows which one is meant."""
    return not isinstance(item, NounPhrase) or item.determiner in DEFINITE


def takes_kein(item: object) -> bool:
    """Whether "kein" negates the item: not a book -> kein Buch; not ... books -> keine Bücher."""
    return isinstance(item, NounPhrase) and item.determiner in ("a", "")


Order = Literal["second", "question", "inverted", "final", "to"]


def render_clause(clause: Clause, order: Order, opening: Phrase = EMPTY) -> Phrase:
    """Render a clause. `order` is the position of the finite verb in German.

    - "second": second, in main clauses;
    - "question": first; in English, the auxiliary precedes the subject too;
    - "inverted": first, because a subordinate clause precedes;
    - "final": last, after `opening` or a relative pronoun;
    - "to": an infinitive, without a subject.
    """
    negation = _new_concept() if clause.negated else None
    kein = next((x for x in (clause.accusative, clause.dative, clause.predicate) if takes_kein(x)), None)

    def nominal(item: Nominal | None, case: Case) -> Phrase:
        return render_nominal(item, case, negation if item is kein else None) if item else EMPTY

    parts = {
        "subject": nominal(clause.subject, "nominative") if order != "to" else EMPTY,
        "dative": nominal(clause.dative, "dative"),
        "accusative": nominal(clause.accusative, "accusative"),
        "time": render_time(clause.time) if clause.time is not None else EMPTY,
        "complement": render_complement(clause),
    }
    if clause.predicate:
        parts["predicate"] = render_predicate(clause.predicate, negation if clause.predicate is kein else None)
    for name in ("direction", "partner", "place"):
        parts[name] = render_prepositional(getattr(clause, name)) if getattr(clause, name) else EMPTY
    for name in ("frequency", "manner", "opener"):
        parts[name] = render_invariable(getattr(clause, name)) if getattr(clause, name) else EMPTY
    front = parts.pop(front_of(clause), EMPTY)

    def english(*names: str) -> Words:
        return [word for name in names if name in parts for word in parts[name].english]

    def german(*names: str) -> Words:
        return [word for name in names if name in parts for word in parts[name].german]

    verb = render_verb(clause, order == "question", negation)
    if order == "to":
        verb = to_infinitive(clause.verb)
    subject = verb.auxiliary + english("subject") if order == "question" else english("subject") + verb.auxiliary
    after_verb = ("dative", "accusative", "predicate", "direction", "manner", "partner", "place", "time", "complement")
    source = opening.english + front.english + subject + english("frequency") + verb.rest + english(*after_verb)

    # The German middle field: known information is early, new information is late, and "nicht" is between them.
    objects = [name for name in ("dative", "accusative") if name in parts and getattr(clause, name)]
    pronouns = [name for name in objects if isinstance(getattr(clause, name), Pronoun)]
    known = [name for name in objects if name not in pronouns and is_definite(getattr(clause, name))]
    new = [name for name in objects if name not in pronouns + known]
    early = clause.frequency is not None and "early" in clause.frequency.tags
    given = german(*pronouns, "frequency", *known, "time") if early else german(*pronouns, *known, "time", "frequency")
    nicht = make_words("nicht", negation) if negation is not None and kein is None else []
    middle = given + nicht + german("manner", "partner", "place", *new, "predicate", "direction")
    extraposing = ("dative", "accusative", "predicate", "complement")
    extraposed = [word for name in extraposing if name in parts for word in parts[name].extraposed]
    german_subject = german("subject") + (parts["subject"].extraposed if "subject" in parts else [])
    if order == "second" and front.german:
        target = front.german + verb.finite + german_subject + middle + verb.end
    elif order == "second":
        target = german_subject + verb.finite + middle + verb.end
    elif order in ("question", "inverted"):
        target = opening.german + verb.finite + german_subject + middle + verb.end
    elif order == "to":
        target = middle + verb.end
    else:
        target = opening.german + front.german + german_subject + middle + verb_final(verb)
    return Phrase(source, target + extraposed, [])


def front_of(clause: Clause) -> str:
    """The name of the part that is at the front in both languages: a relative pronoun, or `clause.front`."""
    for name in ("subject", "dative", "accusative", "partner", "place"):
        part = getattr(clause, name)
        if isinstance(part.nominal if isinstance(part, Prepositional) else part, RelativeGap):
            return name
    return clause.front


def verb_final(verb: VerbPhrase) -> Words:
    """The verb at the end of a clause: "macht ... auf" becomes "aufmacht"; auxiliaries and modals are last."""
    if verb.end and verb.end[0].concepts[0] in verb.finite[0].concepts:
        return [Word(verb.end[0].text + verb.finite[0].text, verb.finite[0].concepts)]
    return verb.end + verb.finite


def to_infinitive(verb: Verb) -> VerbPhrase:
    """The infinitive: to open -> aufzumachen, to read -> zu lesen."""
    to, meaning = _new_concept(), _new_concept()
    one_word = make_words(f"{verb.prefix}zu{verb.infinitive}", to, meaning)
    two_words = make_words("zu", to) + make_words(verb.infinitive, meaning)
    return VerbPhrase(make_words("to", to), make_words(verb.base, meaning), [], one_word if verb.prefix else two_words)


def render_complement(clause: Clause) -> Phrase:
    """Render the clause after "say that" or "try to". In German it follows the end of the main clause."""
    if clause.complement is None:
        return EMPTY
    if clause.verb.frame == "that":
        inner = render_clause(clause.complement, "final", aligned("that", CONJUNCTIONS["that"]))
    else:
        inner = render_clause(clause.complement, "to")
    return Phrase(inner.english, [], [COMMA, *inner.german, COMMA])


def render(sentence: Sentence) -> AlignedPair:
    """Render a sentence in both languages, with the word alignment."""
    main, other = sentence.main, sentence.other
    stop = aligned("?", "?") if sentence.question else aligned(".", ".")
    comma = aligned(",", ",")
    if sentence.question and main.subject is not WHO:
        wh = sentence.question
        whole = render_clause(main, "question", aligned(wh, QUESTIONS[wh]) if wh in QUESTIONS else EMPTY)
    elif other is None:
        whole = render_clause(main, "second")
    elif sentence.conjunction in ("and", "but"):
        middle = aligned(sentence.conjunction, CONJUNCTIONS[sentence.conjunction])
        between = concatenate(comma, middle) if sentence.conjunction == "but" else middle
        whole = concatenate(render_clause(main, "second"), between, render_clause(other, "second"))
    else:
        opening = aligned(sentence.conjunction, CONJUNCTIONS[sentence.conjunction])
        subordinate = render_clause(other, "final", opening)
        if sentence.fronted:  # so the main clause begins with its verb
            whole = concatenate(subordinate, comma, render_clause(main, "inverted"))
        else:
            whole = concatenate(render_clause(main, "second"), Phrase([], [COMMA], []), subordinate)
    return to_pair(concatenate(whole, stop))


def to_pair(phrase: Phrase) -> AlignedPair:
    """Clean up commas, capitalise the first word, and align the words that share a concept."""
    english, german = phrase.english, merge_commas(phrase.german)
    english[0] = english[0]._replace(text=english[0].text[0].upper() + english[0].text[1:])
    german[0] = german[0]._replace(text=german[0].text[0].upper() + german[0].text[1:])
    positions: dict[int, list[int]] = {}
    for j, word in enumerate(german):
        for concept in word.concepts:
            positions.setdefault(concept, []).append(j)
    links = {(i, j) for i, word in enumerate(english) for concept in word.concepts for j in positions.get(concept, ())}
    source, target = tuple(w.text for w in english), tuple(w.text for w in german)
    return AlignedPair(detokenize(source), detokenize(target), source, target, tuple(sorted(links)))


def merge_commas(words: Words) -> Words:
    """Merge adjacent commas, and drop a comma before the end of the sentence."""
    kept: Words = []
    for word in words:
        if kept and kept[-1].text == "," and word.text in ",.?":
            word = word._replace(concepts=kept.pop().concepts + word.concepts)
        kept.append(word)
    return kept


def detokenize(words: Sequence[str]) -> str:
    """Join words to text, without spaces before punctuation."""
    return "".join(word if word in (",", ".", "?") else " " + word for word in words).strip()
