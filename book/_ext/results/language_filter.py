"""The language filter: how many sentence pairs it drops, and how many of them rightly."""

from pathlib import Path

from book._ext.results.tables import ORIGIN, Part, folded, origin, read_results, table


def language_filter(root: Path) -> list[Part]:
    """Return what the language filter drops with each threshold, its precision and its recall."""
    results = read_results(root, "language-filter")
    rows = []
    for row in results["thresholds"]:
        cells = [row["threshold"], row["dropped"], *(f"{row[name]:.1%}" for name in ("precision", "recall"))]
        rows.append([f"**{cell}**" if row["threshold"] == results["recipe"] else cell for cell in cells])
    sides = results["sides"]
    summary = (
        f"Of {results['pairs']:,} pairs, the other filters keep {results['checked']:,}; {results['labelled']} of these "
        f"were labelled, and {results['wrong']} of the labelled ones have a side in the wrong language. Among the "
        f"pairs that the recipes drop, with the threshold {results['recipe']}, the filter suspected the source in "
        f"{sides['source']}, the target in {sides['target']} and both in {sides['both']}."
    )
    origins = folded("Where these numbers come from", table(ORIGIN, [origin(results["provenance"])], kind="long-end"))
    return [table(["threshold", "dropped", "precision", "recall"], rows), summary + "\n" + origins]
