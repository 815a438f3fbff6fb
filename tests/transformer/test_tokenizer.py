import pytest

from transformer.errors import UserError
from transformer.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

LINES = [
    f"the {a} kitchen table is {b} than the garden table" for a in ("old", "new", "red") for b in ("older", "newer")
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES, 60)


def test_round_trip_and_normalisation(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the  old garden\u00a0table")
    assert tokenizer.decode(ids) == "the old garden table"
    assert not set(ids) & {PAD, BOS, EOS, UNK}
    assert len(tokenizer) == 60


def test_special_ids_leave_no_text_and_unknown_letters_are_unk(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("table")
    assert tokenizer.decode([BOS, *ids, EOS, PAD]) == "table"
    assert UNK in tokenizer.encode("ж")


def test_the_same_text_gives_the_same_tokenizer(tokenizer: Tokenizer) -> None:
    assert Tokenizer.train(LINES, 60).model == tokenizer.model


def test_pieces_show_word_starts(tokenizer: Tokenizer) -> None:
    assert tokenizer.pieces(tokenizer.encode("table"))[0].startswith("▁")


def test_too_large_a_vocabulary_says_how_large_it_can_be() -> None:
    with pytest.raises(UserError, match=r"too small for 5000 pieces: choose a vocabulary of at most (\d+)") as caught:
        Tokenizer.train(LINES, 5000)
    Tokenizer.train(LINES, int(str(caught.value).split()[-1]))


def test_too_small_a_vocabulary_says_so() -> None:
    with pytest.raises(UserError, match="does not hold every character"):
        Tokenizer.train(LINES, 8)


def test_no_text_and_no_tokenizer_are_errors() -> None:
    with pytest.raises(UserError, match="empty"):
        Tokenizer.train([], 60)
    with pytest.raises(UserError, match="not a SentencePiece model"):
        Tokenizer(b"nonsense")
