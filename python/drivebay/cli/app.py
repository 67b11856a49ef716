"""The program and its commands; each command is loaded from its module when it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer

from drivebay.cli.options import SETTINGS, Group, Verb

# Commands by task, in the order of the help.
_BY_TASK = {
    "Review drives": "review report open compare rank fleet drives suites new-drive new-policy "
    "hosts explain check-trim",
    "Traces and servers": "trace replay size serve ctl crash gate",
    "Model accuracy and experiments": "age array validate calibrate twin sweep prepare worker",
    "Data": "query import judge",
    "This machine": "doctor bench",
}
PANELS = {task: names.split() for task, names in _BY_TASK.items()}


class Verbs(Mapping[str, Any]):
    """Commands by name; looking one up imports its module."""

    def __init__(self) -> None:
        self._names = [name for panel in PANELS.values() for name in panel]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        stem = "import_" if name == "import" else name.replace("-", "_")
        module = import_module(f"drivebay.cli.{stem}")
        app = getattr(module, "app", None)
        if app is None:  # the module has one command, a function with its name
            app = Verb()
            app.command()(getattr(module, stem))
        command = typer.main.get_command(app)
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Program(Group):
    """Group of all commands, listed by task in the help."""

    panels = PANELS

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Verbs()  # type: ignore[assignment]


app = typer.Typer(
    name="drivebay",
    cls=Program,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
        from drivebay.common import provenance

        typer.echo(provenance.version_line())
        raise typer.Exit


@app.callback(
    epilog="""\b
Examples:
  drivebay review sm951-ahci-512        a virtual drive, about a minute
  drivebay review ./disk.img --quick    a file, through fio, some minutes
  drivebay report drivebay-results/*    several reviews on one page
  drivebay drives                       drives that can be reviewed

\b
Exit codes: 0 success; 1 a check failed; 2 wrong usage; 3 something is missing
on this machine (fio, a permission, disk space); 130 interrupted."""
)
def drivebay(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """An SSD review lab for real drives and virtual ones."""
