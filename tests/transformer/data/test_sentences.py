"""Texts are split where their sentences end, and nowhere else."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.data.sentences import split_sentences

TEXTS = """
Hello! | How are you?
hello! | how are you? | i am fine. | and you
Hello! | how are you? | i am fine. and you
i'm tired... not now. | we met dr. brown at 5 p.m. on monday. | good night
1. wash the apples, pears etc. and eat them. | 2. that's all
wir treffen uns am 3. mai im 2. stock, d.h. bald. | äpfel usw. habe ich. | "gut." sagte er
I love you. | Do you love me?
I love you
Wait... | What is that?
Well... maybe not.
Really?! | Yes.
It's late… | Let's go.
Mr. Smith and Mrs. Jones met Dr. Brown. | They talked.
J. R. R. Tolkien wrote it. | So do I. | You know.
We met at 5 p.m. | Then we left.
We met at 5 p.m. on Monday.
Do you live in the U.S. or not?
No. | I don't know.
It's in room No. 5. | Come in.
It costs 3.50 euros. | That's 1,000.50 dollars in 1990. | He paid.
I am 30. | She is 25. | And you?
1. Wash the apples. | 2. Cut them.
On Dec. 24 we stay at home.
Wir treffen uns am 3. Mai. | Das ist ein Montag.
Tom ist 30. | Julia ist 28. | Maike ist 25.
Wir reisen seit Montag, 3. Sept. 2024, durch Spanien.
Sie wohnt im 2. Stock. | Er auch.
Der 14. Juli ist ein Feiertag.
Im späten 15. Jahrhundert sahen sie den Mt. Everest. | Zu seinem 13. Geburtstag schlief er.
Ich mag Obst, z. B. Äpfel. | Und du?
Ich mag Obst, z.B. Äpfel, d.h. fast alles.
Das ist Hr. Müller bzw. Frau Schmidt. | Guten Tag!
Ich wohne in der Hauptstr. 5. | Besuch mich!
Äpfel, Birnen usw. sind Obst.
"Stop!" he said. | "Why?" | She laughed.
„Halt!“ rief er. | „Komm her.“ | Sie kam.
(Come in.) | [He did.] | 'Good.'
What?! | (Nobody knows.) | Fine.
. | ... | !
visit example.org or write to a@b.de. | Bye
Ölpreise steigen. | Überall? | Ja.
"""


@pytest.mark.parametrize("line", TEXTS.strip().splitlines())
def test_examples(line: str) -> None:
    sentences = line.split(" | ")
    assert split_sentences(" ".join(sentences)) == sentences
    assert split_sentences("\t" + "\n ".join(sentences) + " ") == sentences


def test_an_empty_text_has_no_sentences() -> None:
    assert split_sentences("") == split_sentences(" \n\t ") == []


@given(st.text(alphabet="aB ä1.!?…\"'„(\n", max_size=60))
def test_words_are_kept_and_only_a_mark_ends_a_sentence(text: str) -> None:
    sentences = split_sentences(text)
    assert " ".join(sentences).split() == text.split()
    assert all(re.search("[.!?…]", sentence.split()[-1]) for sentence in sentences[:-1])
    assert all(sentences)


@pytest.mark.parametrize("text", ["a " * 300_000, "\"'" * 100_000 + " x", "(" * 100_000 + "." + ")" * 100_000 + " X"])
def test_the_time_grows_with_the_length_of_the_text_only(text: str) -> None:
    started = time.process_time()
    split_sentences(text)
    assert time.process_time() - started < 5
