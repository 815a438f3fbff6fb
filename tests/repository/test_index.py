"""The index: its entries for chapters are spelt as in the glossary, and other spellings lead to them."""

import re
from pathlib import Path

from book._ext.chapters import chapters

GLOSSARY = (Path(__file__).parents[2] / "book" / "glossary.md").read_text("utf-8")
IN_GLOSSARY = {
    line
    for block in re.findall(r"^```\{glossary\}\n(.*?)^```", GLOSSARY, re.DOTALL | re.MULTILINE)
    for line in re.findall(r"^\S.*$", block, re.MULTILINE)
}
TERMS = [term for facts in chapters().values() for term in facts["terms"]]
ENTRIES = IN_GLOSSARY | {term for term in TERMS if "; " not in term}


def test_no_term_has_two_spellings() -> None:
    spellings: dict[str, set[str]] = {}
    for entry in ENTRIES:
        spellings.setdefault(re.sub(r"\W", "", entry.lower()), set()).add(entry)
    assert [found for found in spellings.values() if len(found) > 1] == []


def test_other_spellings_lead_to_an_entry() -> None:
    others = dict(term.split("; ") for term in TERMS if "; " in term)
    assert set(others.values()) <= ENTRIES and not ENTRIES & set(others)


def test_a_term_leads_to_one_chapter() -> None:
    assert len(set(TERMS)) == len(TERMS)
