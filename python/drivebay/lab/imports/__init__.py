"""Importers of other programs' output: one list, by name.

To add one, write a module here with a function `read(path, time_scale) -> ImportedFile`
(`results.foreign`), add a record to importers.toml, and describe the format in
docs/guides/import.md. `read` raises UserError for a file that is not of its format, and Unreadable
or a load's ValidationError for figures that are impossible. A file without phases is refused.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from drivebay.common import documents
from drivebay.common.documents import printable
from drivebay.common.errors import UserError

if TYPE_CHECKING:
    from drivebay.results.foreign import Foreign

AUTO = "auto"
PATH = "give the path of a file"


@dataclass(frozen=True)
class Importer:
    """A format: `program` writes it, `form` is the kind of output. A file fits if `mark` is found
    in its text; `module` has `read`; `again` is the hint for files that cannot be imported, and
    `empty` the error for a file without phases."""

    name: str
    summary: str
    help: str
    program: str
    form: str
    mark: re.Pattern[str]
    module: str
    again: str
    empty: str = "no row was run"


IMPORTERS = tuple(
    Importer(**{**entry, "mark": re.compile(entry["mark"])})
    for entry in documents.beside(__file__, "importers.toml")["importers"]
)


def read_files(
    name: str, files: Sequence[Path], *, drive: str | None = None, time_scale: float = 1.0
) -> Foreign:
    """Reads files of another program; `Foreign.write` makes a result folder of them.

    Parameters
    ----------
    name : that of an importer, or `AUTO`: the only one that all files fit.
    drive : name of the drive; by default the device that the program reports.
    time_scale : seconds of the drive's clock per second of the program's, as the drive was served.

    Raises
    ------
    UserError
        If a file is not of the format, is damaged, or has an impossible figure; or if none or two
        formats fit.
    """
    from pydantic import ValidationError

    from drivebay.definitions import mistakes
    from drivebay.results.foreign import Foreign
    from drivebay.targets.fio.figures import Unreadable

    if not files:
        raise UserError("no files were given", f"drivebay import {name} FILE... --out DIR")
    importer = recognized(files) if name == AUTO else named(name)
    read = importlib.import_module(importer.module).read
    imported = []
    for path in files:
        refused = f"{printable(str(path))} cannot be imported"
        if path.exists() and not path.is_file():
            raise UserError(f"{refused}: it is not a regular file", PATH)
        try:
            imported.append(read(path, time_scale))
            if not imported[-1].phases:
                raise UserError(f"{printable(str(path))}: {importer.empty}", importer.again)
        except UserError:
            _refuse_other(path, importer)
            raise
        except Unreadable as problem:
            raise UserError(f"{refused}: {printable(str(problem))}", importer.again) from None
        except ValidationError as problem:
            error = mistakes.first(problem)
            field = f"{refused}: {mistakes.dotted(error['loc'])}"
            raise mistakes.user_error(
                error, field, document="a load", hint=importer.again
            ) from None
    return Foreign(importer.name, importer.program, importer.form, imported, drive, time_scale)


def import_files(name: str, files: Sequence[Path], out: Path, **more: Any) -> Path:
    """Makes a result folder of files, as `read_files` reads them, and returns its path."""
    return read_files(name, files, **more).write(out)


@contextlib.contextmanager
def opened(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Gives the files, with copies of pipes and standard input ("-"), which cannot be read twice.
    Raises UserError if one cannot be read."""
    with tempfile.TemporaryDirectory() as folder:
        given = []
        for path in files:
            is_input = str(path) == "-" and not path.exists()
            if is_input or path.is_fifo():
                name = "stdin" if is_input else path.name
                copy = Path(tempfile.mkdtemp(dir=folder), name)
                place = Path("/dev/stdin") if is_input else path
                try:
                    copy.write_bytes(documents.read(place, bytes_max=documents.KEPT_BYTES_MAX))
                except (OSError, ValueError) as problem:
                    hint = "save it as a file, and give its path"
                    raise UserError(f"{printable(str(path))}: {problem}", hint) from None
                path = copy
            given.append(path)
        yield given


def xml_of(path: Path, root: str, importer: Importer) -> ElementTree.Element:
    """The element `root` of an XML file; text before it is skipped. Raises UserError."""
    text = text_of(path, importer.again)
    try:
        return documents.xml(text[max(0, text.find(f"<{root}")) :])
    except ValueError as problem:
        raise UserError(f"{printable(str(path))} is damaged: {problem}", importer.again) from None


def text_of(path: Path, again: str, *, refusal: str = "cannot be imported") -> str:
    """The text of a file in any usual encoding. Raises UserError with this hint if it cannot be
    read."""
    shown = printable(str(path))
    try:
        return documents.text(documents.read_packed(path))
    except OSError as problem:
        raise UserError(f"{shown} cannot be read: {problem.strerror}", again) from None
    except ValueError as problem:
        raise UserError(f"{shown} {refusal}: {problem}", again) from None


def named(name: str) -> Importer:
    return next(importer for importer in IMPORTERS if importer.name == name)


def _refuse_other(path: Path, importer: Importer) -> None:
    """Raises UserError if the file fits another importer and not this one."""
    others = fitting(path, importer.again)
    if others and importer not in others:
        raise UserError(
            f"{printable(str(path))} is no {importer.form} of {importer.program}",
            f"it fits: drivebay import {others[0].name}",
        )


def fitting(path: Path, hint: str) -> list[Importer]:
    """Importers whose mark the file has. Raises UserError if it cannot be read."""
    text = text_of(path, hint)
    return [importer for importer in IMPORTERS if importer.mark.search(text)]


def recognized(files: Sequence[Path]) -> Importer:
    """The only importer that every file fits."""
    names = " or ".join(importer.name for importer in IMPORTERS)
    hint = f"name the format: drivebay import {names}"
    chosen: Importer | None = None
    for path in files:
        if path.exists() and not path.is_file():
            raise UserError(f"{printable(str(path))} is not a regular file", PATH)
        fits, shown = fitting(path, PATH), printable(str(path))
        if not fits:
            raise UserError(f"{shown} is of no format that can be imported", hint)
        if len(fits) > 1:
            several = " and ".join(importer.name for importer in fits)
            raise UserError(f"{shown} fits several formats: {several}", hint)
        if chosen not in (None, fits[0]):
            raise UserError(
                f"{shown} is of another format than the files before it: {fits[0].name}",
                "import the files of each program by themselves",
            )
        chosen = fits[0]
    assert chosen is not None, "there are files"
    return chosen
