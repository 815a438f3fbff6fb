"""Data augmentation: change English-German training pairs so that a model learns what its corpus rarely contains.

Sentences for learners, such as Tatoeba's, are nearly always about Tom, Mary and Boston, in American English and written
with care. A model trained on them has no reason to look at the letters of a name and turns an unknown one into
nonsense, and it can make nothing of "where is the station", without a capital and a question mark. `augment` replaces

- names of people and places, partly with made-up ones, so that the model can only copy them,
- days, months and numbers, so that it sees all of them equally often,
- American words with British ones, in English source sentences,

and writes the source sentence carelessly, as people type, while the target stays correctly written.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from random import Random

from transformer.data.readers import SentencePair


def _table(text: str) -> dict[str, str]:
    """Read pairs of words such as ``Rome/Rom``; an underscore stands for a space."""
    return dict(pair.replace("_", " ").split("/") for pair in text.split())


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


@cache
def _pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern for any of these words, whatever its case; what may follow a German day is not part of the match."""
    suffix = "(?:s|abend|morgen|nachmittag|vormittag|nacht)?"
    return re.compile(rf"(?<![\w-])(?:{_alternatives(words)})(?={suffix}(?![\w-]))", re.IGNORECASE)


MALE = """
Adam Albert Alex Ali Andreas Anton Arthur Ben Benjamin Bernd Brian Bruno Carlos Charles Chris Christian Daniel David
Dennis Dieter Dominik Edward Elias Emil Eric Felix Finn Florian Francis Frank Frederik Fritz Gabriel George Georg Gerald
Gustav Hans Harry Heinrich Henry Hugo Igor Ivan Jack Jacob James Jan Jason Jens Jim Joe Johannes John Jonas Jonathan
Josef Juan Julian Karl Kevin Klaus Kurt Lars Leo Leon Leonard Liam Linus Louis Luca Lukas Magnus Marco Mark Markus
Martin Matthew Matthias Max Michael Mike Mohammed Moritz Nick Niklas Noah Oliver Omar Oskar Otto Patrick Paul Pavel
Pedro Peter Philip Ralf Ray Richard Robert Robin Roland Sam Samuel Sebastian Simon Stefan Steve Sven Theo Thomas Tim
Tobias Victor Vincent Walter Werner William Yusuf
""".split()
FEMALE = """
Agnes Alexandra Alice Amelie Amy Andrea Angela Anna Anne Anja Astrid Barbara Beate Bella Bianca Birgit Brigitte Carla
Carmen Carol Caroline Charlotte Christine Clara Claudia Cornelia Diana Doris Edith Elena Elisabeth Ella Emily Emma Erika
Esther Eva Fatima Fiona Franziska Frida Gabi Gisela Grace Greta Hanna Hannah Heidi Helen Helena Ida Ilse Ines Inge Irene
Isabel Jana Jane Jasmin Jennifer Jessica Johanna Judith Julia Juliane Karin Karla Kate Katharina Katrin Kim Kirsten
Laila Lara Laura Lea Lena Leonie Linda Lisa Lotte Lucia Lucy Luise Lydia Magda Maja Margarete Maria Marie Marion Marta
Martina Maya Melanie Mia Mila Miriam Monika Nadja Natalie Nele Nicole Nina Nora Olga Olivia Paula Petra Rachel Rebecca
Renate Rita Rosa Ruth Sabine Sandra Sara Sarah Silke Silvia Sofia Sonja Sophie Stella Susanne Tamara Tanja Theresa Tina
Ursula Valerie Vanessa Vera Veronika Wanda Yasmin Yvonne Zoe
""".split()
SURNAMES = """
Adams Baker Bauer Becker Berger Bergmann Brown Carter Clark Cooper Davis Evans Fischer Garcia Graf Green Hansen Harris
Hill Hoffmann Huber Hughes Jackson Johnson Jones Keller King Klein Krause Lee Lewis Lopez Maier Martin Meyer Miller
Moore Müller Nguyen Novak Parker Peters Richter Roberts Rossi Scholz Schmidt Schneider Schröder Schulz Silva Smith
Taylor Thompson Turner Vogel Wagner Walker Weber White Williams Wilson Winkler Wolf Wright Yilmaz Young Zimmermann
""".split()
NAMES = {"Tom": "Tom", "Mary": "Mary|Maria", "Boston": "Boston"}
"""The names in the corpora that are replaced, with their German form."""
TITLES = {"Tom": [("Dr.", "Dr.")], "Mary": [("Mrs.", "Frau"), ("Ms.", "Frau"), ("Mrs", "Frau"), ("Dr.", "Dr.")]}
"""Titles before surnames, English and German, that are the same in all German cases."""
MR = [("Mr.", "Herr"), ("Mr", "Herr")]
"""For the nominative only: in the other cases it is *Herrn*."""

PLACES = """
Aachen Amsterdam Ankara Bangkok Barcelona Basel Bergen Berlin Bern Bielefeld Bochum Bonn Bordeaux Boston Bremen Bristol
Brighton Budapest Cambridge Casablanca Chicago Dallas Delhi Denver Detroit Dortmund Dresden Dublin Duisburg Edinburgh
Erfurt Essen Frankfurt Freiburg Glasgow Graz Halle Hamburg Heidelberg Helsinki Houston Innsbruck Istanbul
Jakarta Jena Karlsruhe Kassel Kiel Kyoto Leeds Leipzig Linz Liverpool London Lyon Madrid Mainz Malaga Manchester
Mannheim Marseille Melbourne Miami Montreal Mumbai Nairobi Osaka Oslo Oxford Paris Passau Porto Potsdam Regensburg Riga
Rostock Salzburg Seattle Sofia Stockholm Stuttgart Sydney Tokyo Toronto Trier Tunis Ulm Utrecht Valencia Vancouver
Weimar Wiesbaden Wuppertal York
""".split()
"""Cities with the same name in English and German."""
TRANSLATED_PLACES = _table("""
Athens/Athen Austria/Österreich Beijing/Peking Belgium/Belgien Brussels/Brüssel Cologne/Köln Copenhagen/Kopenhagen
Croatia/Kroatien Denmark/Dänemark Egypt/Ägypten Florence/Florenz France/Frankreich Geneva/Genf Germany/Deutschland
Greece/Griechenland Hanover/Hannover Hungary/Ungarn India/Indien Ireland/Irland Italy/Italien Lisbon/Lissabon
Milan/Mailand Moscow/Moskau Munich/München Naples/Neapel Norway/Norwegen Nuremberg/Nürnberg Poland/Polen Prague/Prag
Rome/Rom Russia/Russland Scotland/Schottland Spain/Spanien Sweden/Schweden Venice/Venedig Vienna/Wien Warsaw/Warschau
Zurich/Zürich
""")
"""Cities and countries, English and German, that need no article in either language."""

MADE_UP = 0.3
"""Share of replacements that are made up, so that memorising the lists of names is not enough."""
WITH_TITLE = 0.2
"""Share of replacements of a person's name that are a title and a surname."""

SYLLABLES = (
    "b br ch d dr f fr g gr h j k kl kr l m n p pr qu r s sch sh st t tr v w x y z".split(),
    "a e i o u".split(),
)
ENDINGS = "k ke l la lin ll man mi n na ne ng ni nn ra rn ro ski ss th tz v wa".split()

DAYS = _table("""
Monday/Montag Tuesday/Dienstag Wednesday/Mittwoch Thursday/Donnerstag Friday/Freitag Saturday/Samstag Sunday/Sonntag
""")
MONTHS = _table("""
January/Januar February/Februar March/März April/April May/Mai June/Juni July/Juli August/August September/September
October/Oktober November/November December/Dezember
""")
ONES = _table("two/zwei three/drei four/vier five/fünf six/sechs seven/sieben eight/acht nine/neun")
TEENS = _table("""
ten/zehn eleven/elf twelve/zwölf thirteen/dreizehn fourteen/vierzehn fifteen/fünfzehn sixteen/sechzehn
seventeen/siebzehn eighteen/achtzehn nineteen/neunzehn
""")
TENS = _table("""
twenty/zwanzig thirty/dreißig forty/vierzig fifty/fünfzig sixty/sechzig seventy/siebzig eighty/achtzig ninety/neunzig
""")
NUMBERS = {**ONES, **TEENS, **TENS} | {
    f"{ten}-{one}": f"{ein}und{zehn}" for ten, zehn in TENS.items() for one, ein in {"one": "ein", **ONES}.items()
}
"""The numbers from 2 to 99, English and German. One is left out, because its German endings vary."""
HOURS = list(NUMBERS)[:11]
"""two to twelve"""

BRITISH = _table("""
airplane/aeroplane apartment/flat apologize/apologise at_the_movies/at_the_cinema behavior/behaviour canceled/cancelled
cell_phone/mobile_phone center/centre color/colour cookie/biscuit cozy/cosy department_store/department_store
elevator/lift favor/favour favorite/favourite flashlight/torch flashlights/torches flavor/flavour french_fries/chips
garbage/rubbish gas_station/petrol_station gasoline/petrol gray/grey harbor/harbour highway/motorway honor/honour
humor/humour jewelry/jewellery kilometer/kilometre labor/labour liter/litre mail/post mailman/postman math/maths
maths/maths meter/metre mom/mum movie/film movie_theater/cinema neighbor/neighbour neighborhood/neighbourhood
on_vacation/on_holiday organize/organise pajamas/pyjamas parking_lot/car_park parking_meter/parking_meter
railroad/railway realize/realise realized/realised recognize/recognise recognized/recognised rumor/rumour
sidewalk/pavement soccer/football subway/underground sweater/jumper the_store/the_shop theater/theatre
to_the_movies/to_the_cinema trash/rubbish traveled/travelled traveler/traveller traveling/travelling truck/lorry
trucks/lorries vacation/holiday
""")
"""American words and spellings and the British ones, which are rare in the corpora. Entries that map to themselves
keep their parts from being replaced."""
AMERICAN = re.compile(rf"(?<![\w-])(an? )?({_alternatives(BRITISH)})(s?)(?![\w-])", re.IGNORECASE)
CLOCK_TIME = re.compile(r"o'clock|quarter|half|[ap]\.?m\b|Uhr|Viertel|\b(?:at|by|until|before|after) [a-z]+[.!?]")
"""Where a number may be an hour, which cannot be fifty."""


def augment(english: str, german: str, source: str, probability: float, random: Random) -> SentencePair:
    """Change an English-German pair at random; the two sentences stay translations of each other.

    Args:
        english: the English sentence.
        german: the German sentence.
        source: the source language, ``en`` or ``de``.
        probability: probability of each possible replacement; the source is written carelessly with half this
            probability.
        random: the source of random numbers.

    Returns:
        The English and the German sentence.
    """
    pair = english, german
    for person, first_names in (("Tom", MALE), ("Mary", FEMALE)):
        if random.random() < probability:
            pair = _replace_name(pair, person, _new_person(pair, person, first_names, random))
    if random.random() < probability:
        pair = _replace_name(pair, "Boston", _new_place(random))
    for words in (DAYS, MONTHS):
        if random.random() < probability:
            pair = _replace_word(pair, words, list(words), random)
    if random.random() < probability:
        pair = _vary_number(pair, random)
    english, german = pair
    careless = random.random() < probability / 2
    if source == "de":
        return english, write_carelessly(german, random) if careless else german
    if random.random() < probability:
        english = to_british(english)
    return write_carelessly(english, random) if careless else english, german


def made_up_name(random: Random) -> str:
    """Return a name of one or two syllables and an ending, such as "Krolin"."""
    syllables = ["".join(map(random.choice, SYLLABLES)) for _ in range(random.choice((1, 2)))]
    return "".join([*syllables, random.choice(ENDINGS)]).capitalize()


def to_british(english: str) -> str:
    """Replace American words and spellings with British ones, and adjust their articles."""

    def replace(match: re.Match[str]) -> str:
        article, word, ending = match.groups()
        british = BRITISH[word.lower()] + ending
        if article:
            british = f"an {british}" if british.startswith((*"aeiou", "honour")) else f"a {british}"
        return _capitalise_like(british, match)

    return AMERICAN.sub(replace, english)


def write_carelessly(sentence: str, random: Random) -> str:
    """Write a sentence as people type in a hurry: often in lower case, without its end mark, or without apostrophes."""
    letters = random.random()
    if letters < 0.6:
        sentence = sentence.lower()
    elif letters < 0.8:
        sentence = sentence[:1].lower() + sentence[1:]
    if random.random() < 0.7:
        sentence = re.sub(r"[.!?]$", "", sentence)
    if random.random() < 0.3:
        sentence = re.sub(r"(?<=\w)['’](?=\w)", "", sentence)
    return sentence


def _new_person(pair: SentencePair, person: str, first_names: Sequence[str], random: Random) -> SentencePair:
    """Return a name for Tom or Mary, English and German: a first name, or a title and a surname."""
    invented = random.random() < MADE_UP
    if random.random() < WITH_TITLE:
        titles = TITLES[person]
        if person == "Tom" and (_is_subject(pair, person) or _is_addressed(pair, person)):
            titles = titles + MR * 2
        surname = made_up_name(random) if invented else random.choice(SURNAMES)
        english, german = random.choice(titles)
        return f"{english} {surname}", f"{german} {surname}"
    name = made_up_name(random) if invented else random.choice(first_names)
    return name, name


def _new_place(random: Random) -> SentencePair:
    """Return the name of a city or country, English and German."""
    if random.random() < MADE_UP:
        place = made_up_name(random)
    elif random.random() < 0.5:
        return random.choice(list(TRANSLATED_PLACES.items()))
    else:
        place = random.choice(PLACES)
    return place, place


def _is_subject(pair: SentencePair, person: str) -> bool:
    """Whether both sentences begin with the name, so that it is the German subject, apart from a few verbs."""
    dative = (
        "gefällt gefiel gefallen gehört gehörte fällt fiel fehlt fehlte geht ging tut tat wurde wird schmeckt".split()
    )
    english, german = pair
    return (
        english.startswith(f"{person} ")
        and german.startswith(f"{person} ")
        and german.split(" ")[1] not in dative
        and english.count(person) == german.count(person) == 1
    )


def _is_addressed(pair: SentencePair, person: str) -> bool:
    """Whether both sentences end with the name after a comma."""
    return all(re.search(rf", {person}[.!?]$", side) and side.count(person) == 1 for side in pair)


def _replace_name(pair: SentencePair, name: str, new: SentencePair) -> SentencePair:
    """Replace a name, if it occurs equally often on both sides.

    The possessive forms follow: *Tom's house*, *Toms Haus* → *Agnes's house*, *Agnes' Haus*.
    """
    pattern = re.compile(rf"\b(?:{NAMES[name]})(’s|'s|s)?\b")
    counts = [len(pattern.findall(side)) for side in pair]
    if not counts[0] or counts[0] != counts[1]:
        return pair
    english, german = (pattern.sub(partial(_inflect, other), side) for side, other in zip(pair, new, strict=True))
    return english, german


def _inflect(name: str, match: re.Match[str]) -> str:
    """Append a possessive ending; in German, a name that ends in a sibilant has only an apostrophe."""
    ending = match[1] or ""
    return f"{name}'" if ending == "s" and name[-1] in "sßxz" else name + ending


def _replace_word(pair: SentencePair, words: Mapping[str, str], choices: Sequence[str], random: Random) -> SentencePair:
    """Replace a word, if it is the only one of ``words`` in the English sentence, and its translation in the German."""
    if _only_word(pair, words) is None:
        return pair
    new = random.choice(choices)
    english, german = (
        _pattern(tuple(side)).sub(partial(_capitalise_like, other), text)
        for side, other, text in zip((words, words.values()), (new, words[new]), pair, strict=True)
    )
    return english, german


def _vary_number(pair: SentencePair, random: Random) -> SentencePair:
    """Replace a number word with another, but an hour only with an hour or a half hour."""
    found = _only_word(pair, NUMBERS)
    if found is None or re.search(rf"\ban? {found}\b", pair[0], re.IGNORECASE):  # *an eight*, but *a nine*
        return pair
    if not any(map(CLOCK_TIME.search, pair)):
        return _replace_word(pair, NUMBERS, HOURS if random.random() < 0.5 else list(NUMBERS), random)
    oclock, uhr = f"{found} o'clock", f"{NUMBERS[found]} Uhr"
    if oclock not in pair[0] or uhr not in pair[1] or random.random() < 0.5:
        return _replace_word(pair, NUMBERS, HOURS, random)
    hour = random.randrange(len(HOURS) - 1)
    half_past, halb = f"half past {HOURS[hour]}", f"halb {NUMBERS[HOURS[hour + 1]]}"
    return pair[0].replace(oclock, half_past), pair[1].replace(uhr, halb)


def _only_word(pair: SentencePair, words: Mapping[str, str]) -> str | None:
    """The word, if the English sentence has exactly one of ``words`` and the German exactly one, its translation."""
    english, german = (
        _pattern(tuple(side)).findall(text) for side, text in zip((words, words.values()), pair, strict=True)
    )
    if len(english) == len(german) == 1:
        for word, translation in words.items():
            if word.lower() == english[0].lower() and translation.lower() == german[0].lower():
                return word
    return None


def _capitalise_like(new: str, match: re.Match[str]) -> str:
    """Begin the new word with a capital or a lower-case letter, like the one that is replaced."""
    return (new[0].upper() if match[0][0].isupper() else new[0].lower()) + new[1:]
