"""Measures the judge against labels that two readers made without it.

Run: .venv/bin/python examples/judge/measure.py FOLDER. The folder holds the files (files/), their
places (manifest.csv: file, repository, path, commit, set), and the readers' labels (labels_a.csv,
labels_b.csv: file, a column per flaw with yes, no or unknown; labels_second.csv has those of a
second reader for files that one hand labelled). Prints a table of each set and of all files, as
docs/concepts/judge-measured.md has them, and writes docs/concepts/judge-files.csv.

A file has a flaw if both readers say yes, and has it not if neither does; where they differ it is
not counted. It is accused if the verdict is shown or likely. Kappa is Cohen's, over three labels.
"""

import csv
import sys
from collections import Counter
from pathlib import Path

from drivebay.common.errors import UserError
from drivebay.lab.judge import judge
from drivebay.lab.judge.rules import RULES

OUT = Path(__file__).parents[2] / "docs/concepts/judge-files.csv"
LABELS = ("yes", "no", "unknown")
Row = dict[str, str]


def table(path: Path) -> dict[str, Row]:
    """Rows of a CSV by file."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {Path(row["file"].strip()).stem: row for row in rows}


def kappa(pairs: list[tuple[str, str]]) -> float:
    """Cohen's kappa of two readers; 1 if they always give the same single label."""
    agreed = sum(one == other for one, other in pairs) / len(pairs)
    first, second = (Counter(label) for label in zip(*pairs, strict=True))
    chance = sum(first[label] * second[label] for label in LABELS) / len(pairs) ** 2
    return 1.0 if chance == 1 else (agreed - chance) / (1 - chance)


def share(part: int, whole: int) -> str:
    """A share in per cent; a dash if there is nothing."""
    return f"{100 * part / whole:.0f} %" if whole else "-"


def report(
    title: str, names: list[str], labels: list[dict[str, Row]], verdicts: dict[str, Row]
) -> None:
    """Prints the table of some files."""
    judged = [name for name in names if "refused" not in verdicts[name].values()]
    print(f"{title}: {len(names)} files, {len(names) - len(judged)} refused")
    print("| flaw | kappa | yes by both | accused | precision | recall | shown: precision |")
    print("|---|---|---|---|---|---|---|")
    for rule in RULES:
        said = {
            name: tuple(one[name][rule.name].strip().lower() for one in labels) for name in judged
        }
        has = {name for name, pair in said.items() if pair == ("yes", "yes")}
        hasnt = {name for name, pair in said.items() if "yes" not in pair}
        shown = {name for name in judged if verdicts[name][rule.name] == "shown"}
        accused = shown | {name for name in judged if verdicts[name][rule.name] == "likely"}
        precision = share(len(accused & has), len(accused & (has | hasnt)))
        of_shown = share(len(shown & has), len(shown & (has | hasnt)))
        agreement = kappa([(one, other) for one, other in said.values()])
        print(
            f"| {rule.name} | {agreement:.2f} | {len(has)} | {len(accused)} | {precision} | "
            f"{share(len(accused & has), len(has))} | {of_shown} |"
        )
        if "--differences" in sys.argv:
            print("  false:", sorted(accused & hasnt), "missed:", sorted(has - accused))


def main(folder: Path) -> None:
    """Prints the tables and writes the list of files."""
    manifest = table(folder / "manifest.csv")
    labels = [table(folder / f"labels_{reader}.csv") for reader in "ab"]
    labels[1] |= table(folder / "labels_second.csv")
    verdicts: dict[str, Row] = {}
    for name, row in manifest.items():
        try:
            ((_, found),) = judge([folder / "files" / row["file"]])
            verdicts[name] = {entry.flaw: entry.verdict for entry in found}
        except UserError:
            verdicts[name] = {rule.name: "refused" for rule in RULES}
    both = sorted(set(labels[0]) & set(labels[1]) & set(manifest))
    for part in (*sorted({row["set"] for row in manifest.values()}), "all"):
        report(part, [n for n in both if part in ("all", manifest[n]["set"])], labels, verdicts)
    with OUT.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        names = [rule.name for rule in RULES]
        writer.writerow(["repository", "path", "commit", "set", *names])
        for name in both:
            place = [manifest[name][key] for key in ("repository", "path", "commit", "set")]
            cells = [
                f"{labels[0][name][flaw]}/{labels[1][name][flaw]}/{verdicts[name][flaw]}"
                for flaw in names
            ]
            writer.writerow([*place, *cells])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
