"""The chart of masked words has every model's predictions for each sentence of its menu, and fits a phone."""

from tests.transformer.plots.panels import panels
from transformer.plots.masked_words import masked_word_explorer

CORRECT = {"___ Hund": "Der", "Der ___": "Hund"}
MODELS = {
    "first": {"___ Hund": [("Der", 0.75), ("Ein", 0.125)], "Der ___": [("Hund", 0.5)]},
    "second": {"___ Hund": [("Die", 0.5), ("Der", 0.25)], "Der ___": [("König", 0.25)]},
}
SPEC = masked_word_explorer(MODELS, CORRECT, "choose a word").to_dict()


def test_it_follows_the_page_and_fits_a_phone() -> None:
    assert SPEC["description"] == "choose a word"
    assert SPEC["usermeta"]["embedOptions"]["renderer"] == "svg" and SPEC["config"]["background"] == "transparent"
    assert all(panel["width"] <= 250 for panel in panels(SPEC))


def test_its_menu_has_all_sentences() -> None:
    (menu,) = SPEC["params"]
    assert menu["bind"]["options"] == list(CORRECT) and menu["value"] == "___ Hund"
    (menu,) = masked_word_explorer(MODELS, CORRECT, "choose a word", start="Der ___").to_dict()["params"]
    assert menu["value"] == "Der ___"


def test_each_panel_has_the_predictions_of_its_model() -> None:
    for panel in panels(SPEC):
        data = panel["data"] if "data" in panel else panel["layer"][0]["data"]
        rows = SPEC["datasets"][data["name"]]
        for sentence, words in MODELS[panel["title"] if "title" in panel else panel["layer"][0]["title"]].items():
            chosen = [row for row in rows if row["sentence"] == sentence]
            assert [(row["word"], row["probability"]) for row in chosen] == words
            assert [row["correct"] for row in chosen] == [word == CORRECT[sentence] for word, _ in words]
            assert [row["rank"] for row in chosen] == list(range(len(words)))
