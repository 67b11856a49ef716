"""The memory of fits: what every evaluation gave, in memory and in a file, line by line.

An evaluation is deterministic in its values. That is all that an interrupted fit needs to go on:
its search, which depends on nothing but the seed and the answers, is made again and finds its
answers here, in no time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from drivebay.common import documents
from drivebay.common.errors import UserError
from drivebay.common.files import system_errors
from drivebay.lab.validate.plan import Run
from drivebay.lab.validate.values import Figures

JOURNAL_VERSION = 2


@dataclass(frozen=True, order=True)
class Evaluation:
    """A run on its drive with other values: `at`, by their parameters' names.

    `full`: in the length of the measurement, not a short form. `of`: a fingerprint of what else it
    depends on, where one journal serves several.
    """

    run: Run
    at: tuple[tuple[str, float], ...] = ()
    full: bool = False
    seed: int = 1
    of: str = ""


class Journal:
    """What every evaluation gave: in memory, and line by line in a file.

    The file begins with what the fit is; a last line that was not finished is cut off.
    """

    def __init__(self) -> None:
        self._known: dict[Evaluation, Figures] = {}
        self._file: TextIO | None = None
        self._mutex = threading.Lock()

    @staticmethod
    def beside(out: Path) -> Path:
        """Where the journal of a fit lies whose profile is to be written there."""
        return out.with_name(f"{out.stem}.journal.jsonl")

    def open(self, path: Path, head: Mapping[str, Any], *, resume: bool) -> None:
        """Begins the file, or takes what is in it. Raises UserError if there is one and it is not
        to be resumed, or it is of another fit; EnvironmentProblem if it cannot be read or written.
        """
        whole = {"journal": JOURNAL_VERSION, **head}
        with system_errors(f"{path} cannot be written", f"ls -ld {path.parent}"):
            if path.exists():
                if not resume:
                    raise UserError(
                        f"{path} exists: a fit to the same --out was started before",
                        f"resume it: --resume; or start again: rm {path}",
                    )
                self._read(path, whole)
                self._file = path.open("a", encoding="utf-8")
            else:
                self._file = path.open("w", encoding="utf-8")
                self._line(whole)

    def _read(self, path: Path, head: Mapping[str, Any]) -> None:
        try:
            content = documents.read(path, bytes_max=documents.KEPT_BYTES_MAX)
            end = content.rfind(b"\n") + 1
            lines = [documents.from_json(line) for line in content[:end].splitlines()]
            if not lines or lines[0].get("journal") != JOURNAL_VERSION:
                raise ValueError
            for line in lines[1:]:
                figures = line.pop("figures")
                run, at = Run(**line.pop("run")), tuple(sorted(line.pop("at").items()))
                self._known[Evaluation(run, at, **line)] = figures
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(
                f"{path} is no journal of a fit, or damaged", f"start again: rm {path}"
            ) from None
        if differ := [key for key in head if lines[0].get(key) != head[key]]:
            raise UserError(
                f"{path} is of another fit: its {', '.join(differ)} differ",
                f"give the same command as before and --resume; or start again: rm {path}",
            )
        if end < len(content):
            with path.open("r+b") as file:
                file.truncate(end)

    def get(self, what: Evaluation) -> Figures | None:
        """What was found, if anything."""
        with self._mutex:
            return self._known.get(what)

    def put(self, what: Evaluation, figures: Figures) -> None:
        """Remembers what was found; the line is handed to the system at once."""
        with self._mutex:
            self._known[what] = figures
            self._line({**asdict(what), "at": dict(what.at), "figures": figures})

    def _line(self, content: Mapping[str, Any]) -> None:
        if self._file is not None:
            with system_errors(f"{self._file.name} cannot be written", "df -h ."):
                self._file.write(json.dumps(content) + "\n")
                self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
