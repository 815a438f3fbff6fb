"""Replace the names in sentence pairs by others, so that a model learns to copy names instead of memorising a few.

Sentences for learners, such as Tatoeba's, are nearly always about Tom, Mary and Boston. A model trained on them has no
reason to look at the letters of a name, and turns an unknown one into one that it knows, or into nonsense. In pairs
with other names, some of them made up, the only way to predict the name in the target is to copy it from the source.
"""

import re
from functools import partial
from random import Random

from transformer.data.readers import SentencePair

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

REPLACED = {"Tom": MALE, "Mary": FEMALE, "Boston": PLACES}
"""Name → its replacements."""

MADE_UP = 0.3
"""Share of replacements that are made up, so that memorising the lists of names is not enough."""

SYLLABLES = (
    "b br ch d dr f fr g gr h j k kl kr l m n p pr qu r s sch sh st t tr v w x y z".split(),
    "a e i o u".split(),
)
ENDINGS = "k ke l la lin ll man mi n na ne ng ni nn ra rn ro ski ss th tz v wa".split()


def vary_names(pair: SentencePair, probability: float, random: Random) -> SentencePair:
    """Replace Tom, Mary and Boston, each with a probability, if they occur equally often on both sides.

    The possessive forms follow: *Tom's house*, *Toms Haus* → *Agnes's house*, *Agnes' Haus*.

    Args:
        pair: an English and a German sentence, in any order.
        probability: of replacing each of the names.
        random: the source of random numbers.
    """
    for name, replacements in REPLACED.items():
        pattern = re.compile(rf"\b{name}(’s|'s|s)?\b")
        source, target = pair
        count = len(pattern.findall(source))
        if count and count == len(pattern.findall(target)) and random.random() < probability:
            other = made_up_name(random) if random.random() < MADE_UP else random.choice(replacements)
            inflect = partial(_inflect, other)
            pair = pattern.sub(inflect, source), pattern.sub(inflect, target)
    return pair


def made_up_name(random: Random) -> str:
    """Return a name of one or two syllables and an ending, such as "Krolin"."""
    syllables = ["".join(map(random.choice, SYLLABLES)) for _ in range(random.choice((1, 2)))]
    return "".join([*syllables, random.choice(ENDINGS)]).capitalize()


def _inflect(name: str, match: re.Match[str]) -> str:
    """Append a possessive ending; in German, a name that ends in a sibilant has only an apostrophe."""
    ending = match[1] or ""
    return f"{name}'" if ending == "s" and name[-1] in "sßxz" else name + ending
