"""The command line as data: every command with its description, arguments, options and examples.

Read from the typer app itself, so that the reference and the man page always agree with `--help`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from drivebay.cli.app import app


@dataclass(frozen=True)
class Option:
    """An option or argument: its syntax and description."""

    form: str
    description: str


@dataclass(frozen=True)
class Command:
    """One command; `path` is "drivebay review"."""

    path: str
    usage: str
    summary: str
    description: str
    arguments: tuple[Option, ...]
    options: tuple[Option, ...]
    epilog: str


def every() -> list[Command]:
    """All commands by name, the program itself first."""
    top = typer.main.get_command(app)
    first, *others = _walk(top, "drivebay")
    return [first, *sorted(others, key=lambda command: command.path)]


def _walk(command: Any, path: str) -> Iterator[Command]:
    yield _command(command, path)
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from _walk(below, f"{path} {name}")


def _command(command: Any, path: str) -> Command:
    context = typer.Context(command, info_name=path)
    arguments, options = [], []
    usage = [path]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or getattr(parameter, "hidden", False):
            continue
        form, description = record
        description = " ".join(description.split())
        if parameter.param_type_name == "argument":
            name = parameter.metavar or parameter.name.upper()
            arguments.append(Option(name, description.replace(" [required]", "")))
            usage.append(name if parameter.required or name.startswith("[") else f"[{name}]")
        else:
            options.append(Option(form, description))
    usage.insert(1, "[OPTIONS]")
    if getattr(command, "commands", None):
        usage.append("COMMAND [ARGS]...")
    description = _paragraphs(command.help or "")
    return Command(
        path,
        " ".join(usage),
        description.split("\n\n")[0].replace("\n", " "),
        description,
        tuple(arguments),
        tuple(options),
        _paragraphs(command.epilog or ""),
    )


def _paragraphs(text: str) -> str:
    """Removes click's marks of paragraphs that must not be wrapped."""
    return re.sub(r"\n{3,}", "\n\n", text.replace("\b\n", "").replace("\b", "")).strip()
