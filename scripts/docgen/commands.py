"""The command line as data: every command with its words, arguments, options and examples.

Read from the typer app itself, so that the reference and the man page cannot say anything else than
`--help` does.
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
    """An option or argument: how it is written, and what it is for."""

    form: str
    words: str


@dataclass(frozen=True)
class Command:
    """One command; `path` is "drivebay review"."""

    path: str
    usage: str
    summary: str
    words: str
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
        form, words = record
        words = " ".join(words.split())
        if parameter.param_type_name == "argument":
            name = parameter.metavar or parameter.name.upper()
            arguments.append(Option(name, words.replace(" [required]", "")))
            usage.append(name if parameter.required or name.startswith("[") else f"[{name}]")
        else:
            options.append(Option(form, words))
    usage.insert(1, "[OPTIONS]")
    if getattr(command, "commands", None):
        usage.append("COMMAND [ARGS]...")
    words = _paragraphs(command.help or "")
    return Command(
        path,
        " ".join(usage),
        words.split("\n\n")[0].replace("\n", " "),
        words,
        tuple(arguments),
        tuple(options),
        _paragraphs(command.epilog or ""),
    )


def _paragraphs(text: str) -> str:
    """The text without click's marks of paragraphs that are not to be wrapped."""
    return re.sub(r"\n{3,}", "\n\n", text.replace("\b\n", "").replace("\b", "")).strip()
