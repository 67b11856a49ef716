"""A run's failures for people and pipelines: a paragraph each, JUnit XML, and SARIF 2.1.0.

Sources: the JUnit schema of Jenkins' xunit plug-in (junit-10.xsd); OASIS SARIF 2.1.0.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

from drivebay.common import provenance
from drivebay.common.documents import printable
from drivebay.common.files import refuse_foreign, system_errors
from drivebay.crash import calls, files, replay, words
from drivebay.crash.run import Asked, Outcome

NAME = "drivebay crash"


def paragraphs(outcome: Outcome, asked: Asked, again: str) -> dict[str, str]:
    """Returns a paragraph for each kind of failure, by its smallest state. `again`: seed, and the
    command that restores the state named after it.
    """
    states = asked.open()
    texts = {}
    with tempfile.TemporaryDirectory(prefix="drivebay-crash-") as folder:
        for number, failure in enumerate(outcome.failures):
            name = failure.smallest
            # The last state has every file, except those that the workload has deleted.
            images = [Path(folder) / "last", Path(folder) / str(number)]
            for image, state in zip(images, (states.last() or name, name), strict=True):
                if not image.exists():
                    replay.write(states, state, image)

            def place(sector: int, images: list[Path] = images) -> str:
                owners = (files.owner(image, sector) for image in images)
                return next(filter(None, owners), "")

            found = states.timeline(name)
            found["calls"] = calls.unsynced(asked.recording, found["mark"])
            output = (failure.verdict.said.splitlines() or ["no output"])[-1]
            text = words.paragraph(found, place, output, len(failure.states))
            texts[name] = f"{printable(text)} ({again} {name} --file state.img)"
    return texts


def refuse_others(junit: Path | None, sarif: Path | None) -> None:
    """Raises UserError if something is at a path that is neither an empty file nor such a report;
    EnvironmentProblem if it cannot be read.
    """
    marks = f'<testsuite name="{NAME}"', '"driver": {\n     "name": "drivebay"'
    for place, mark in zip((junit, sarif), marks, strict=True):
        if place is not None:
            refuse_foreign(place, mark.encode(), "a report of drivebay crash", within=256)


def write(
    junit: Path | None,
    sarif: Path | None,
    outcome: Outcome,
    texts: Mapping[str, str],
    check: Sequence[str],
) -> None:
    """Writes the reports. Raises EnvironmentProblem if a file cannot be written.

    Parameters
    ----------
    junit : a test case for each kind of failure, or one that passes.
    sarif : a result for each kind of failure.
    texts : paragraphs.
    check : its last word that is a file is the location of the results.
    """
    refuse_others(junit, sarif)
    kinds = {one.smallest: printable(one.verdict.alike) for one in outcome.failures}
    if junit is not None:
        void = ". ".join(note for note in outcome.notes if note.startswith("error: "))
        cases = texts or {"": void}
        counts = {"tests": str(len(cases)), "failures": str(sum(map(bool, cases.values())))}
        suite = ElementTree.Element("testsuite", {"name": NAME, **counts, "errors": "0"})
        for state, text in cases.items():
            title = kinds.get(state, "every state is good")
            case = ElementTree.SubElement(suite, "testcase", classname=NAME, name=title)
            if text:
                failure = {"message": text.partition(". ")[0], "type": "power-cut"}
                ElementTree.SubElement(case, "failure", failure).text = text
        with system_errors(f"{junit}", f"ls -ld {junit.parent}"):
            junit.write_bytes(ElementTree.tostring(suite, "utf-8", xml_declaration=True))
    if sarif is not None:
        driver = {"name": "drivebay", "version": provenance.tool_version()}
        file = next(filter(os.path.isfile, reversed(check)), check[0])
        uri = quote(os.path.relpath(file))
        location = {"physicalLocation": {"artifactLocation": {"uri": uri}}}
        results = [
            {
                "ruleId": "power-cut",
                "level": "error",
                "message": {"text": text},
                "locations": [location],
                "partialFingerprints": {"kind/v1": kinds[state]},
            }
            for state, text in texts.items()
        ]
        rules = [{"id": "power-cut", "shortDescription": {"text": "A power cut loses data."}}]
        log = {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": {**driver, "rules": rules}}, "results": results}],
        }
        with system_errors(f"{sarif}", f"ls -ld {sarif.parent}"):
            sarif.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8")
