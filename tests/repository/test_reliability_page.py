"""Each promise on the page *What you can rely on* names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_promise_names_tests_that_exist() -> None:
    rows = [row for row in (ROOT / "book" / "reliability.md").read_text("utf-8").splitlines() if row.startswith("| ")]
    promises = [row for row in rows if not row.startswith("| what you can rely on")]
    assert len(promises) > 20
    for promise in promises:
        names = re.findall(r"`([\w/]*test_\w+(?:\.py)?)`", promise)
        assert names and names[0].endswith(".py"), promise
        sources: list[str] = []
        for name in names:
            if name.endswith(".py"):
                sources = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py") if path.match(name)]
                assert sources, f"there is no {name}"
            else:
                assert any(f"def {name}(" in source for source in sources), f"there is no {name}"
