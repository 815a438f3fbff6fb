"""The panels of an Altair chart that is put together from several."""

from collections.abc import Iterator, Mapping
from typing import Any


def panels(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the panels of a chart in the order in which a phone shows them."""
    for part in spec["vconcat"]:
        if "vconcat" in part:
            yield from panels(part)
        else:
            yield part
