import random
import re
import tracemalloc
import unicodedata
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transformer.data import tokenizer as module
from transformer.data.tokenizer import BOS, EOS, MAX_LINE_LENGTH, PAD, UNK, Tokenizer, sample_lines
from transformer.errors import UserError

LINES = [
    f"the {a} kitchen table is {b} than the garden table" for a in ("old", "new", "red") for b in ("older", "newer")
]
some = settings(derandomize=True)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES, 60)


@pytest.fixture(scope="module")
def with_bytes() -> Tokenizer:
    return Tokenizer.train(LINES, 320, byte_fallback=True)


# Round trips.


def known_to_python(text: str) -> bool:
    return all(unicodedata.category(character) != "Cn" for character in text)


@some
@given(text=st.text() | st.text("ab ▁\t\n\r\0\x1c\x85\xa0\u2028\u3000\ufeff\u200b\ufffd´½e\u0301\u0323\u0344ﬁ각ᄀ"))
@example("\U0001ccd6")  # newer than the Unicode of Python 3.11; SentencePiece normalises it to A
@example("<pad> <bos>a</s><unk> <0x41> ⁇ ▅")
@example("\U0010ffff\ue000\0")
@example("")
def test_any_text_comes_back_normalised(with_bytes: Tokenizer, text: str) -> None:
    ids = with_bytes.encode(text)
    assert with_bytes.decode(ids) == with_bytes.normalize(text)
    assert not set(ids) & {PAD, BOS, EOS, UNK}
    if known_to_python(text):
        assert with_bytes.normalize(text) == " ".join(unicodedata.normalize("NFKC", text).replace("▁", " ").split())


@some
@given(st.text(sorted({*"".join(LINES), *" \t\n\u3000▁"})))
def test_text_of_known_characters_comes_back_without_bytes_too(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == tokenizer.normalize(text)
    assert UNK not in ids


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        (" the  old\u00a0garden\n\ttable\r", "the old garden table"),
        ("a\x85b\u2028c\u3000d\x1fe", "a b c d e"),
        ("▁a▁▁ b▁", "a b"),
        ("ﬁve ½ ² …", "five 1⁄2 2 ..."),
        ("e\u0301 Å \u1100\u1161", "é Å 가"),
        ("q\u0307\u0323", "q\u0323\u0307"),  # the order of accents, which SentencePiece's rule doesn't change
        ("\u0344", "\u0308\u0301"),
        ("a´", "a \u0301"),
        ("\ufeffa\u200bb\0c\ufffd", "\ufeffa\u200bb\0c\ufffd"),
        ("<pad><bos> A", "<pad><bos> A"),
        (" \n\u00a0▁", ""),
    ],
)
def test_normalisation(tokenizer: Tokenizer, text: str, normalised: str) -> None:
    assert tokenizer.normalize(text) == normalised
    assert tokenizer.encode(text) == tokenizer.encode(normalised)


def test_the_model_normalises_alone_in_other_programs(with_bytes: Tokenizer) -> None:
    other = sentencepiece.SentencePieceProcessor()
    other.LoadFromSerializedProto(with_bytes.model)
    text = "  ﬁve\u00a0tables,\u3000 ½ ² … e\u0301 "
    assert other.encode(text) == with_bytes.encode(text)


def test_unknown_characters_without_bytes(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the жж table")
    assert ids.count(UNK) == 1
    assert tokenizer.decode(ids) == "the  ⁇  table"


def test_special_ids_leave_no_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([BOS, *tokenizer.encode("table"), EOS, PAD]) == "table"
    assert tokenizer.decode([]) == ""


def test_an_invalid_byte_is_shown(with_bytes: Tokenizer) -> None:
    first, second = with_bytes.encode("\u0436")[1:]  # after "▁"
    assert with_bytes.decode([first, second]) == "\u0436"
    assert with_bytes.decode([first]) == "\ufffd"


def test_special_pieces_are_the_same_in_every_vocabulary(tokenizer: Tokenizer, with_bytes: Tokenizer) -> None:
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    for each in (tokenizer, with_bytes):
        assert each.pieces(range(4)) == ["<pad>", "<bos>", "<eos>", "<unk>"]


def test_pieces_show_word_starts(tokenizer: Tokenizer) -> None:
    assert tokenizer.pieces(tokenizer.encode("table"))[0].startswith("▁")


@some
@given(st.lists(st.text(), max_size=5))
def test_many_texts_at_once_are_the_same_as_one_by_one(with_bytes: Tokenizer, texts: list[str]) -> None:
    assert with_bytes.encode_all(iter(texts)) == [with_bytes.encode(text) for text in texts]


def test_many_texts_keep_their_order(tokenizer: Tokenizer) -> None:
    texts = [" ".join(random.Random(i).choices(LINES, k=i % 7)) for i in range(3000)]
    assert tokenizer.encode_all(texts) == [tokenizer.encode(text) for text in texts]


# BPE dropout.

SENTENCE = "the older kitchen table"


def test_dropout_splits_in_many_ways_that_all_mean_the_same(tokenizer: Tokenizer) -> None:
    found = tokenizer.encode_all([SENTENCE] * 200, dropout=0.3)
    assert {tokenizer.decode(ids) for ids in found} == {SENTENCE}
    assert len({tuple(ids) for ids in found}) > 50
    assert min(map(len, found)) >= len(tokenizer.encode(SENTENCE)), "dropout never merges more than BPE itself"


def test_more_dropout_makes_smaller_pieces(tokenizer: Tokenizer) -> None:
    lengths = [sum(map(len, tokenizer.encode_all([SENTENCE] * 200, dropout))) / 200 for dropout in (0, 0.1, 0.5, 0.99)]
    assert lengths == sorted(set(lengths))
    assert lengths[0] == len(tokenizer.encode(SENTENCE)) and lengths[-1] > 0.9 * len(SENTENCE)


# Training.


def test_the_same_text_gives_the_same_tokenizer(tokenizer: Tokenizer) -> None:
    assert len(tokenizer) == 60
    assert Tokenizer.train((line for line in LINES), 60).model == tokenizer.model


def test_training_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    Tokenizer.train(LINES, 60)
    assert capfd.readouterr() == ("", "")


def test_training_sees_normalised_text(tokenizer: Tokenizer) -> None:
    spaced = ["", *(line.replace(" ", "\t▁\u2028") for line in LINES), "  "]
    assert Tokenizer.train(spaced, 60).model == tokenizer.model


def test_long_lines_are_learned_from(tokenizer: Tokenizer) -> None:
    long = " ".join(LINES * 4000)
    assert len(long) > 1 << 20
    learned = Tokenizer.train([long, "the жук"], 63)
    assert UNK not in learned.encode(LINES[0]) and UNK not in learned.encode("жук")


texts = st.lists(st.text("abc de.1", min_size=1), min_size=1).filter(lambda lines: "".join(lines).strip())


@some
@given(texts, st.booleans())
def test_messages_contain_the_largest_and_smallest_possible_vocabulary(lines: list[str], byte_fallback: bool) -> None:
    with pytest.raises(
        UserError, match=r"too small for a vocabulary of 5000: choose a model.vocab_size of at most \d+$"
    ) as too_large:
        Tokenizer.train(lines, 5000, byte_fallback)
    with pytest.raises(
        UserError, match=r"vocabulary of 4 is too small .* choose a model.vocab_size of at least \d+$"
    ) as too_small:
        Tokenizer.train(lines, 4, byte_fallback)
    largest, smallest = (int(str(caught.value).split()[-1]) for caught in (too_large, too_small))
    assert smallest == 4 + 256 * byte_fallback + len({*"".join(["▁", *lines])} - {" "})
    for size in (smallest, largest):
        assert len(Tokenizer.train(lines, size, byte_fallback)) == size
    with pytest.raises(UserError, match=f"at most {largest}$"):
        Tokenizer.train(lines, largest + 1, byte_fallback)
    with pytest.raises(UserError, match=f"at least {smallest}$"):
        Tokenizer.train(lines, smallest - 1, byte_fallback)


@pytest.mark.parametrize("size", [-(10**12), -1, 0, 1, 3, 10**12])
def test_odd_sizes_get_the_same_answer(size: int) -> None:
    answer = "at least 21" if size < 4 else r"at most \d+"  # 16 letters, "▁" and 4 special pieces
    with pytest.raises(UserError, match=rf"{size}\b.*{answer}$"):
        Tokenizer.train(LINES, size)


@pytest.mark.parametrize("lines", [[], [""], [" ", "\t\n"]])
def test_no_text_is_an_error(lines: list[str]) -> None:
    with pytest.raises(UserError, match="empty"):
        Tokenizer.train(lines, 60)


def test_errors_while_reading_lines_are_not_hidden() -> None:
    def lines() -> Iterator[str]:
        yield LINES[0]
        raise OSError("no such disk")

    with pytest.raises(OSError, match="no such disk"):
        Tokenizer.train(lines(), 60)


def test_a_lone_surrogate_is_an_error(tokenizer: Tokenizer) -> None:
    text = "x" * 30 + "<Gr\udcfc\udcdfe>" + "y" * 30
    message = r"^U\+DCFC in 'x{17}<Gr\\udcfc\\udcdfe>y{16}' is not a valid character: the text is not UTF-8"
    for ask in (tokenizer.encode, tokenizer.normalize):
        with pytest.raises(UserError, match=message):
            ask(text)
    with pytest.raises(UserError, match=message):
        tokenizer.encode_all(["a", text])
    with pytest.raises(UserError, match=message):
        Tokenizer.train([*LINES, text], 60)


# Files.


def test_a_saved_model_is_the_same_tokenizer(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a.model").write_bytes(tokenizer.model)
    again = Tokenizer.load(tmp_path / "a.model")
    assert again.model == tokenizer.model and again.encode(LINES[0]) == tokenizer.encode(LINES[0])


def test_invalid_tokenizer_files_are_errors(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "a.model"
    with pytest.raises(UserError, match=f"the tokenizer {re.escape(str(path))} is missing"):
        Tokenizer.load(path)
    with pytest.raises(UserError, match=f"cannot read the tokenizer {re.escape(str(tmp_path))}: it is not a file"):
        Tokenizer.load(tmp_path)
    for broken in (b"", b"nonsense", tokenizer.model[:1000]):
        path.write_bytes(broken)
        with pytest.raises(UserError, match=f"^{re.escape(str(path))}: the tokenizer is not a SentencePiece model"):
            Tokenizer.load(path)


def test_other_special_ids_are_an_error(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EOS", 1)
    monkeypatch.setattr(module, "BOS", 2)
    other = Tokenizer.train(LINES, 60).model
    monkeypatch.undo()
    with pytest.raises(UserError, match="pad, bos, eos and unk must have the ids 0, 1, 2, 3"):
        Tokenizer(other)


# Samples.


@some
@given(st.lists(st.text("ab", max_size=9)), st.integers(1, 12), st.integers(0, 3), st.integers(0, 60))
def test_a_sample_is_the_start_of_a_random_order(lines: list[str], count: int, seed: int, characters: int) -> None:
    rng = random.Random(seed)
    order = sorted(range(len(lines)), key=[rng.random() for _ in lines].__getitem__)
    taken: list[int] = []
    for number in order[:count]:
        if sum(len(lines[i]) for i in [*taken, number]) > characters:
            break
        taken.append(number)
    assert sample_lines(iter(lines), count, seed, characters) == [lines[i] for i in sorted(taken)]


def test_every_sample_is_equally_likely() -> None:
    seeds = 4000
    found = Counter("".join(sample_lines("abcde", 3, seed)) for seed in range(seeds))
    assert {*found} == {"".join(three) for three in combinations("abcde", 3)}
    expected = seeds / 10
    chi_square = sum((count - expected) ** 2 / expected for count in found.values())
    assert chi_square < 27.9  # 9 degrees of freedom: one in a thousand is larger


def test_fewer_lines_are_all_taken_in_order() -> None:
    assert sample_lines(iter(LINES)) == LINES
    assert sample_lines(LINES, len(LINES)) == LINES
    assert sample_lines([]) == []


def test_another_seed_is_another_sample() -> None:
    lines = [str(i) for i in range(1000)]
    assert sample_lines(lines, 20) == sample_lines(lines, 20, seed=0) != sample_lines(lines, 20, seed=1)


def test_one_long_line_does_not_fill_a_sample() -> None:
    lines = ["x" * 2 * MAX_LINE_LENGTH, *LINES]
    assert sample_lines(lines, characters=MAX_LINE_LENGTH + 1000) == ["x" * MAX_LINE_LENGTH, *LINES]


@pytest.mark.parametrize(("count", "characters"), [(10, 10**9), (10**9, 50_000)])
def test_a_sample_holds_no_more_than_it_returns(count: int, characters: int) -> None:
    lines = (str(i) * 1000 for i in range(1000, 3000))  # 8 MB
    tracemalloc.start()
    sample = sample_lines(lines, count, characters=characters)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(sample) >= 10
    assert peak < 200_000


def test_an_empty_sample_is_refused() -> None:
    for count in (0, -1):
        with pytest.raises(UserError, match=f"at least 1 line; got {count}"):
            sample_lines(LINES, count)
