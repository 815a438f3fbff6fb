"""What learners write in the notebooks about a first translation and about a model of their own, and what is said."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.exercises.test_checks import message

EOS, UNK, N_SPECIAL = 2, 3, 4


def first_line(name: str, answer: Any) -> str:
    return message(name, answer).splitlines()[0].removeprefix(f"✗ {name}: ")


# A first translation --------------------------------------------------------------------------------------------------


def vocabulary_of(words: Any, key: Any = lambda word: word, first: int = N_SPECIAL, spare: int = 0) -> Any:
    def answer(sentences: list[str], size: int) -> dict[str, int]:
        counts: dict[str, int] = {}
        for word in words(sentences):
            counts[word] = counts.get(word, 0) + 1
        ranked = sorted(counts, key=lambda word: (-counts[word], key(word)))
        return {word: first + i for i, word in enumerate(ranked[: size - N_SPECIAL + spare])}

    return answer


def all_words(sentences: list[str]) -> list[str]:
    return " ".join(sentences).split()


def ids_by_place(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    words = list(vocabulary)
    return [N_SPECIAL + words.index(word) if word in words else UNK for word in sentence.split()] + [EOS]


def ids_of_different_words(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return [vocabulary.get(word, UNK) for word in dict.fromkeys(sentence.split())] + [EOS]


def ids_until_the_first_return(sentence: str, vocabulary: dict[str, int]) -> Any:
    ids = []
    for word in sentence.split():
        ids.append(vocabulary.get(word, UNK))
        return [*ids, EOS]
    return None


def ids_appended(sentence: str, vocabulary: dict[str, int]) -> Any:
    return [vocabulary.get(word, UNK) for word in sentence.split()].append(EOS)


def rows_by_one_hot(ids: Tensor, table: Tensor) -> Tensor:
    return F.one_hot(ids).float() @ table


def probable_by_lookup(logits: Tensor, n: int) -> tuple[Tensor, Tensor]:
    p = logits.exp() / logits.exp().sum()
    ids = [p.tolist().index(x) for x in sorted(p.tolist(), reverse=True)[:n]]
    return p[ids], torch.tensor(ids)


def search(finished: Any, reads: Any = lambda prefix, new: prefix + new, keep: bool = True) -> Any:
    def answer(model: Any, prefix: list[int], eos: int, max_new_tokens: int) -> list[int]:
        new: list[int] = []
        for _ in range(max_new_tokens):
            token = int(model(reads(prefix, new)).argmax())
            new += [token] if keep else []
            if finished(token, prefix + new, eos):
                break
        return prefix + new

    return answer


def is_eos(token: int, tokens: list[int], eos: int) -> bool:
    return token == eos


@pytest.mark.parametrize(
    ("name", "answer", "title"),
    [
        ("build_vocabulary", vocabulary_of(lambda s: "".join(s).split()), "the sentences joined without a space"),
        ("build_vocabulary", vocabulary_of(lambda s: s), "whole sentences counted"),
        ("build_vocabulary", vocabulary_of(lambda s: s[0].split()), "only the first sentence"),
        ("build_vocabulary", vocabulary_of(all_words, key=str.lower), "ties sorted without capitals"),
        ("build_vocabulary", vocabulary_of(all_words, first=1), "ids from 1"),
        ("build_vocabulary", vocabulary_of(all_words, spare=1), "one word too many"),
        ("encode_sentence", ids_by_place, "the position in the dict instead of the id"),
        ("encode_sentence", ids_of_different_words, "each word only once"),
        ("encode_sentence", ids_until_the_first_return, "only the first word"),
        ("look_up", rows_by_one_hot, "only as many rows as the ids need"),
        ("most_probable", probable_by_lookup, "the same token several times"),
        ("continue_prefix", search(lambda token, tokens, eos: eos in tokens),
         "stops after a token if the prefix contains eos"),
        ("continue_prefix", search(is_eos, reads=lambda prefix, new: new), "reads only the new tokens"),
        ("continue_prefix", search(is_eos, keep=False), "nothing appended"),
        ("path_lengths", lambda distance, k: (distance, float(-(-distance // (k // 2))), 1),
         "rounded up, but still a float"),
        ("path_lengths", lambda distance, k: (distance, distance // k // 2, 1), "divided by k and by 2"),
    ],
)  # fmt: skip
def test_a_slip_is_called_by_its_name(name: str, answer: Any, title: str) -> None:
    assert first_line(name, answer) == title


def test_a_method_that_returns_nothing_is_a_likely_reason_for_none_where_a_list_is_expected() -> None:
    said = message("encode_sentence", ids_appended).splitlines()
    assert said[0].endswith("it returns None: is there a return statement at the end?")
    assert said[1].startswith("Or do you return what a method such as `append` or `sort` returns?")
    assert "append" not in message("look_up", lambda ids, table: None)
