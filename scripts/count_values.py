"""Counts the values of profiles' own files, and the guesses among them.

Lists of sections (power states, throttle stages) count apart, after a plus sign. Values of classes/
are counted below; a profile that takes them does not repeat them.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent


def leaves(node: Any, in_list: bool = False) -> Iterator[tuple[bool, str]]:
    """Of every value: True if it is in a list of sections, and its source."""
    if isinstance(node, dict) and "value" in node:
        yield in_list, node["source"]
    elif isinstance(node, dict | list):
        for inner in node.values() if isinstance(node, dict) else node:
            yield from leaves(inner, in_list or isinstance(node, list))


def counts(path: Path) -> tuple[int, int, int, int]:
    """Values and guesses of a file without lists of sections, and those in lists."""
    found = list(leaves(tomllib.loads(path.read_text(encoding="utf-8"))))
    guesses = [listed for listed, source in found if source.startswith("guess")]
    listed = sum(one for one, _ in found)
    return len(found) - listed, len(guesses) - sum(guesses), listed, sum(guesses)


def total(folder: str) -> tuple[int, ...]:
    """The sums of a folder."""
    return tuple(map(sum, zip(*map(counts, (TOP / folder).glob("*.toml")), strict=True)))


if __name__ == "__main__":
    print("values  guesses")
    for folder in ("drives", "classes"):
        for path in sorted((TOP / folder).glob("*.toml")):
            values, guesses, listed, guessed = counts(path)
            print(f"{values:4}+{listed:<3}{guesses:5}+{guessed:<3} {folder}/{path.stem}")
        values, guesses, listed, guessed = total(folder)
        print(f"{values:4}+{listed:<3}{guesses:5}+{guessed:<3} {folder}: sum\n")
