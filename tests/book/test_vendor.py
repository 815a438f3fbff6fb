"""The scripts that the book includes have the versions that its libraries need."""

import re
from pathlib import Path

import altair as alt
import pytest

VENDOR = Path(__file__).parents[2] / "book" / "_vendor"


@pytest.mark.parametrize(
    ("name", "needed"),
    [("vega", alt.VEGA_VERSION), ("vega-lite", alt.VEGALITE_VERSION), ("vega-embed", alt.VEGAEMBED_VERSION)],
)
def test_vega_has_the_version_that_altair_needs(name, needed):
    (file,) = (VENDOR / "vega").glob(f"{name}@*.js")
    assert file.name == f"{name}@{needed}.js"
    versions = re.findall(r'[="]\s*"?(\d+\.\d+\.\d+)"', file.read_text("utf-8"))
    assert any(version == needed or version.startswith(f"{needed}.") for version in versions)


def test_each_has_its_licence():
    assert {path.name for path in VENDOR.rglob("LICENSE*")} == {
        "LICENSE",
        "LICENSE-vega",
        "LICENSE-vega-lite",
        "LICENSE-vega-embed",
    }
