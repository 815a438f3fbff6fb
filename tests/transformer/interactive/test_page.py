"""A page with a model in it: it loads nothing from elsewhere, and sentences and titles in it are escaped."""

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from transformer.cli import main
from transformer.errors import UserError
from transformer.interactive import page, translator_page
from transformer.interactive.widgets import bundle, model_files, quantized
from transformer.models import find_model, load_model
from transformer.translator import Translator

SENTENCE = "The old woman does not open the window."


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load_model("pocket-small", "cpu")


class Reader(HTMLParser):
    """A page's elements with their attributes, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[dict[str, str | None], str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] == "script" and data.strip():
            self.texts.append((self.elements[-1][1], data))


def test_it_has_the_model_and_the_translation_and_loads_nothing(translator: Translator) -> None:
    text = translator_page(translator, "pocket-small", [SENTENCE], ["en", "de"])
    found = Reader(text)
    files = {a["data-file"]: (a["data-length"], base64.b64decode(data)) for a, data in found.texts if "data-file" in a}
    assert files == {name: (str(len(data)), data) for name, data in model_files(translator).items()}
    assert bundle() in text
    assert f'<td lang="de">{quantized(translator).beam_search([SENTENCE])[0][0].text}</td>' in text
    addresses = [
        value for _, attributes in found.elements for name, value in attributes.items() if name in ("src", "href")
    ]
    assert addresses == ["data:,"]
    assert found.elements[0] == ("html", {"lang": "en"})
    assert [tag for tag, _ in found.elements].count("h1") == 1
    assert "<title>pocket-small, live</title>" in text and "default-src 'none'" in text


def test_sentences_and_titles_are_escaped(translator: Translator) -> None:
    typed = "</script><img src=x onerror=alert(1)> $title & <!--"
    text = translator_page(translator, "a <b> & $rows", [typed])
    assert not {tag for tag, _ in Reader(text).elements} & {"img", "b"}
    assert "<title>a &lt;b&gt; &amp; $rows, live</title>" in text
    assert re.search(r'"sentences": \["\\u003c/script>\\u003cimg src=x', text)


def test_languages_are_escaped(translator: Translator) -> None:
    wrong = 'en"><img src=x onerror="alert(1)"><i class="'
    text = translator_page(translator, "pocket", [SENTENCE], [wrong, "de"])
    assert "img" not in {tag for tag, _ in Reader(text).elements}
    assert ("td", {"lang": wrong}) in Reader(text).elements


def test_browsers_run_only_the_one_script_whose_hash_the_page_names(translator: Translator) -> None:
    found = Reader(translator_page(translator, "pocket", [SENTENCE], ["en", "de"]))
    (script,) = [data for attributes, data in found.texts if attributes.get("type") == "module"]
    (policy,) = [a["content"] for tag, a in found.elements if tag == "meta" and "http-equiv" in a]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None and f"script-src 'sha256-{digest}';" in policy
    others = [attributes.get("type") for tag, attributes in found.elements if tag == "script"]
    assert sorted(map(str, others)) == ["application/json", "module", *["text/plain"] * 3]  # data is never run
    assert not any(name.startswith("on") for _, attributes in found.elements for name in attributes)


@pytest.mark.parametrize("direction", ['en"><img src=x onerror="alert(1)"><i class="-de', "en", "en-de-fr", 5, None])
def test_a_model_with_a_wrong_direction_is_refused(
    direction: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, page = tmp_path / "model", tmp_path / "page.html"
    shutil.copytree(find_model("pocket-small"), model)
    recipe = json.loads((model / "recipe.json").read_text())
    recipe["data"]["direction"] = direction
    (model / "recipe.json").write_text(json.dumps(recipe))
    with pytest.raises(SystemExit, match="2"):
        main(["attention", str(model), SENTENCE, "--output", str(page), "--device", "cpu"])
    assert "direction" in capsys.readouterr().err and not page.exists()


def test_errors(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="at least one example sentence"):
        translator_page(translator, "pocket", [])
    with pytest.raises(UserError, match="the sentence is empty"):
        translator_page(translator, "pocket", ["  "])
    monkeypatch.setattr(page, "MAX_MEGABYTES", 1)
    with pytest.raises(UserError, match="the model is 2 MB; a browser can load at most 1 MB from within a page"):
        translator_page(translator, "pocket", [SENTENCE])
