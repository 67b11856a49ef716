"""Journal of evaluations: their figures, in memory and in a file, line by line.

An evaluation is deterministic in its values, so the journal is all that an interrupted fit needs to
continue: its search depends only on the seed and on earlier figures; it is repeated and finds those
figures here at once.
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

    `full`: in the measured length, not a short form. `of`: a fingerprint of further dependencies,
    if one journal serves several experiments.
    """

    run: Run
    at: tuple[tuple[str, float], ...] = ()
    full: bool = False
    seed: int = 1
    of: str = ""


class Journal:
    """Figures of every evaluation: in memory, and line by line in a file.

    The file begins with a description of the fit; an unfinished last line is cut off.
    """

    def __init__(self) -> None:
        self._known: dict[Evaluation, Figures] = {}
        self._file: TextIO | None = None
        self._mutex = threading.Lock()

    @staticmethod
    def beside(out: Path) -> Path:
        """Path of the journal of a fit whose profile is to be written to `out`."""
        return out.with_name(f"{out.stem}.journal.jsonl")

    def open(self, path: Path, head: Mapping[str, Any], *, resume: bool) -> None:
        """Creates the file, or reads an existing one. Raises UserError if it exists and must not
        be resumed, or belongs to another fit; EnvironmentProblem if it cannot be read or
        written.
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
                f"{path} is not a journal of a fit, or is damaged", f"start again: rm {path}"
            ) from None
        if differ := [key for key in head if lines[0].get(key) != head[key]]:
            raise UserError(
                f"{path} belongs to another fit: its {', '.join(differ)} differ",
                f"give the same command as before and --resume; or start again: rm {path}",
            )
        if end < len(content):
            with path.open("r+b") as file:
                file.truncate(end)

    def get(self, evaluation: Evaluation) -> Figures | None:
        """Stored figures of an evaluation, if any."""
        with self._mutex:
            return self._known.get(evaluation)

    def put(self, evaluation: Evaluation, figures: Figures) -> None:
        """Stores figures; the line is written to the file at once."""
        with self._mutex:
            self._known[evaluation] = figures
            self._line({**asdict(evaluation), "at": dict(evaluation.at), "figures": figures})

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
