"""Options and arguments: how they are declared, and those that several verbs share.

A verb declares its own as defaults, `x: str = option(...)`; those that verbs share are types below.
`Verb` is the typer application of a verb's module. Help is plain text of at most 80 columns; an
option's panel is its heading there.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ParameterInfo

from drivebay.cli import complete, config
from drivebay.cli.output import be_quiet, say
from drivebay.common.errors import UserError

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 80}
REAL, VIRTUAL = "Real drives", "Virtual drives"
COUNT_MAX, SEED_MAX = 2**32 - 1, 2**64 - 1
"""What the core takes for numbers whose options have no narrower range."""


def argument(metavar: str, help: str, **more: Any) -> Any:
    """A positional argument, which is `x: str = argument(...)` in a command's parameters."""
    return typer.Argument(metavar=metavar, help=help, show_default=False, **more)


def option(
    metavar: str | None,
    help: str,
    *names: str,
    default: Any = ...,
    panel: str | None = None,
    show_default: bool | None = None,
    **more: Any,
) -> Any:
    """An option with a value; its name is the parameter's unless `names` has another. Without a
    `default` it is None where its type allows that, else it must be given."""
    shown = default is not ... if show_default is None else show_default
    about: Any = {"metavar": metavar, "help": help, "rich_help_panel": panel, **more}
    return typer.Option(default, *names, show_default=shown, **about)


def flag(name: str, help: str, *, panel: str | None = None, **more: Any) -> Any:
    """An option without a value; it is False where it is not given."""
    return typer.Option(..., name, help=help, rich_help_panel=panel, **more)


def _with_defaults(run: Callable[..., Any]) -> Callable[..., Any]:
    """The command, whose parameters without a default have the one that their type says."""
    for one in inspect.signature(run, eval_str=True).parameters.values():
        if isinstance(one.default, ParameterInfo) and one.default.default is ...:
            if one.annotation is bool:
                one.default.default = False
            elif type(None) in get_args(one.annotation):
                one.default.default = None
    return run


class _Unconverted:
    """What a parameter was given, where that is what it shall be: typer loads pydantic (a fifth of
    `drivebay drives`) to convert a text to a text, and nothing to nothing."""

    def __init__(self, parameter: Any) -> None:
        self._parameter = parameter

    def coerce(self, value: Any, **more: Any) -> Any:
        parameter = self._parameter
        many = parameter.multiple or parameter.nargs == -1
        if value is None:
            return () if many else None
        if isinstance(value, str) and parameter.type_descriptor.annotation is str:
            return value
        parameter._runtime_param = None  # as typer has it before the first value
        return parameter.get_runtime_param().coerce(value, **more)


def light(parameters: list[Any]) -> list[Any]:
    """The parameters, made so that those that were not given cost nothing."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.default is None:
            parameter.default = False
        if getattr(parameter, "_runtime_param", False) is None:
            parameter._runtime_param = _Unconverted(parameter)
    return parameters


def _only_common(
    quiet: Annotated[
        bool,
        flag(
            "--quiet",
            "Print no progress and no notes; warnings, errors and results stay.",
            callback=be_quiet,
            expose_value=False,
        ),
    ] = False,
    yes: Annotated[
        bool, flag("--yes", "Nothing is asked here.", hidden=True, expose_value=False)
    ] = False,
) -> None:
    """Never run: it declares the options that every command has."""


@cache
def _common() -> list[Any]:
    """Those options, as typer makes them."""
    app = typer.Typer(add_completion=False)
    app.command()(_only_common)
    return list(typer.main.get_command(app).params)


def typed(ctx: Any, name: str) -> bool:
    """Whether the parameter was given on the command line, and not by a file or not at all."""
    return bool(ctx.get_parameter_source(name).name == "COMMANDLINE")


def refuse(ctx: Any, panel: str, drive: str) -> None:
    """Raises UserError if an option was given that has no meaning for the kind of drive."""
    for parameter in ctx.command.params:
        if getattr(parameter, "rich_help_panel", None) == panel and typed(ctx, parameter.name):
            kind = "virtual" if panel == REAL else "real"
            raise UserError(
                f"{max(parameter.opts, key=len)} has no meaning for the {kind} drive {drive}",
                "leave it out",
            )


class Command(TyperCommand):
    """A command whose help lists options under the headings of their panels, and whose options have
    the defaults of the user's file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names = {max(p.opts, key=len).removeprefix("--"): p.name for p in self.get_params(ctx)}
        verb = ctx.command_path.split()[1] if " " in ctx.command_path else ""
        root = ctx.find_root().command
        given = config.Defaults(verb, getattr(root, "commands", ()), names)
        if not {"-h", "--help"} & set(args):  # the help is shown whatever the file has
            ctx.default_map = given
        rest: list[str] = super().parse_args(ctx, args)
        for name, path in (given.sources or {}).items():
            if ctx.get_parameter_source(name).name == "DEFAULT_MAP":
                option = next(key for key, value in names.items() if value == name)
                say(f"note: {path} gives --{option}: {given[name]}")
        for parameter in self.params:
            value = ctx.params.get(parameter.name)
            most = SEED_MAX if parameter.name.endswith("seed") else COUNT_MAX
            if isinstance(value, float) and not math.isfinite(value):
                allowed = "a finite number"
            elif isinstance(value, int) and not 0 <= value <= most:
                allowed = f"a number from 0 to {most}"
            else:
                continue
            raise UserError(
                f"{max(parameter.opts, key=len)}: {value} is not allowed; must be {allowed}",
                f"see: {ctx.command_path} --help",
            )
        return rest

    def get_params(self, ctx: Any) -> list[Any]:
        *own, last = super().get_params(ctx)  # the last is --help
        names = {one.name for one in own}
        return light([*own, *(one for one in _common() if one.name not in names), last])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [p for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return [
            "[OPTIONS]",
            *(f"{p.metavar}" if p.required else f"[{p.metavar}]" for p in arguments),
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            form, words = parameter.get_help_record(ctx) or ("", "")
            if parameter.param_type_name == "argument":
                words = words.replace("[required]", "").strip()
                sections["Arguments"].append((f"{parameter.metavar}", words))
            elif form:
                panel = getattr(parameter, "rich_help_panel", None)
                sections.setdefault(panel or "Options", []).append((form, words))
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Group(TyperGroup):
    """A group of commands, whose help says of each what it does in whole words."""

    panels: Mapping[str, Sequence[str]] | None = None
    """The commands by heading; without it they stand under one, as they come."""

    def get_params(self, ctx: Any) -> list[Any]:
        return light(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in (self.panels or {"Commands": list(self.commands)}).items():
            with formatter.section(title):
                wide = max(map(len, self.commands))
                formatter.write_dl(
                    [(name.ljust(wide), _first(self.commands[name])) for name in names]
                )


def _first(command: Any) -> str:
    """The first paragraph of a command's help."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


class Verb(typer.Typer):
    """The application of one verb."""

    def __init__(self, **more: Any) -> None:
        super().__init__(
            cls=Group,
            add_completion=False,
            rich_markup_mode=None,
            context_settings=SETTINGS,
            **more,
        )

    def command(self, *arguments: Any, **more: Any) -> Callable[[Any], Any]:
        made = super().command(*arguments, **{"cls": Command, **more})
        return lambda run: made(_with_defaults(run))


Given = TypeVar("Given")


def together(
    described: type[Given],
) -> Callable[[Callable[[typer.Context, Given], None]], Callable[..., None]]:
    """Has a command take its options as one object of a dataclass, whose fields describe them."""
    hints = get_type_hints(described, include_extras=True)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter("ctx", kind, annotation=typer.Context)]
    for one in dataclasses.fields(described):  # type: ignore[arg-type]
        default = inspect.Parameter.empty if one.default is dataclasses.MISSING else one.default
        annotation = hints[one.name]
        parameters.append(inspect.Parameter(one.name, kind, default=default, annotation=annotation))

    def made(run: Callable[[typer.Context, Given], None]) -> Callable[..., None]:
        def command(ctx: typer.Context, **values: Any) -> None:
            run(ctx, described(**values))

        command.__name__, command.__doc__ = run.__name__, run.__doc__
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return made


CATALOG_NAME = "A catalog name (see: drivebay drives) or a profile's path ending in .toml"
Drive = Annotated[
    str,
    argument(
        "DRIVE", f"{CATALOG_NAME}, a file, or a block device.", autocompletion=complete.drives
    ),
]
Json = Annotated[bool, flag("--json", "Print JSON for scripts.")]
Seed = Annotated[int, option("N", "Seed of all random choices.", show_default=True)]
Jobs = Annotated[
    int | None,
    option(
        "N",
        "Number of parallel workers; it does not change results. [default: as many as "
        "processors and memory allow]",
        min=1,
        max=1024,
    ),
]
TrustNetwork = Annotated[
    bool,
    flag(
        "--trust-network",
        "Go without TLS though the scheduler is not on loopback: whoever reaches its port, a "
        "worker's, or the way between, can run programs as you. Where a worker has real drives, "
        "that is root.",
    ),
]
Set = Annotated[
    list[str] | None,
    option(
        "CHANGE",
        "Modify the profile: heatsink, unused=25%, link=pcie2x4, or any of its "
        "values, thermal.ambient_c=30; repeatable.",
        "--set",
        panel=VIRTUAL,
    ),
]
Policy = Annotated[
    Path | None,
    option(
        "FILE",
        "Load this policy plug-in and let it decide, see: drivebay new-policy --help. RUNS ITS "
        "CODE with your rights.",
        "--policy",
        panel=VIRTUAL,
    ),
]
Host = Annotated[
    str | None,
    option(
        "NAME",
        "Test it in another host: a name (see: drivebay hosts) or your own .toml file. "
        "[default: that of the drive's reviews]",
        "--host",
        panel=VIRTUAL,
        autocompletion=complete.hosts,
    ),
]
Ailment = Annotated[
    list[str] | None,
    option(
        "NAME",
        "Make the drive sick: slow-die, hot and others (see: drivebay drives --ailments), "
        "aged:80%, or your own .toml file; repeatable.",
        "--ailment",
        panel=VIRTUAL,
        autocompletion=complete.ailments,
    ),
]
NoIntervals = Annotated[
    bool,
    flag("--no-intervals", "Leave out how far a virtual drive's parameters leave figures open."),
]
NewFileSize = Annotated[
    str | None, option("SIZE", "Make DRIVE first, a new file of this size: 4G.", panel=REAL)
]
DestroyData = Annotated[
    str | None,
    option(
        "SERIAL",
        "Serial number of the block device, or name of a file that holds data: allows all of it to "
        "be overwritten.",
        panel=REAL,
    ),
]
OverwriteSignature = Annotated[
    bool,
    flag(
        "--overwrite-signature",
        "With --destroy-data: even if a partition table, a file system or other data that is not "
        "drivebay's is on the device (never if it is mounted, or part of LVM, RAID, ZFS, btrfs, "
        "bcache or LUKS). Tables and signatures are saved first.",
        panel=REAL,
    ),
]
Yes = Annotated[
    bool, flag("--yes", "Ask nothing on a terminal; of a virtual drive nothing is asked.")
]
NoWait = Annotated[
    bool,
    flag(
        "--no-wait",
        "End with exit code 3 instead of waiting for a review of a drive behind the same "
        "controller, bridge or hub.",
        panel=REAL,
    ),
]
TraceFormat = Annotated[
    str | None,
    option(
        "F",
        "Format of the trace, one of: drivebay trace info --help. [default: detected]",
        "--format",
    ),
]
TimeUnit = Annotated[
    Literal["s", "ms", "us", "ns"] | None,
    option(None, "Unit of the trace's times. [default: that of the format]", "--time-unit"),
]
Columns = Annotated[
    str | None,
    option(
        "FIELD=COLUMN,...",
        "Columns of a CSV or Parquet file: time=ts:us,offset=lba:512,length=n,op=rw.",
        "--columns",
    ),
]
OutFormat = Annotated[
    str | None,
    option(
        "iolog|csv|parquet",
        "Output format: fio's iolog version 3, CSV or Parquet. [default: by the suffix]",
        "--to",
    ),
]
Picture = Annotated[
    Path | None,
    option("PICTURE", "Draw addresses and rate over time, and sizes, into this PNG file.", "--png"),
]
Force = Annotated[bool, flag("--force", "Replace output files that exist.")]
