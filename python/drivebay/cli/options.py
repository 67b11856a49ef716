"""Declaration of options and arguments, and the options that several commands share.

A command declares its own options as defaults, `x: str = option(...)`; its docstring describes them
under "Parameters", and the description is the help text. Shared options are the types at the end of
this file. `Verb` is the typer application of a command's module. Help is plain text of at most 80
columns, with options under the headings of their panels.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ParameterInfo

from drivebay.cli import complete, config
from drivebay.cli.output import be_quiet, say
from drivebay.common import docstrings
from drivebay.common.errors import UserError

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 80}
REAL, VIRTUAL, TRACE_FORMAT = "Real drives", "Virtual drives", "Format of the trace"
# Limits of numbers in the core, for options without a narrower range.
COUNT_MAX, SEED_MAX = 2**32 - 1, 2**64 - 1
# Numbers that are converted without pydantic.
DIGITS: dict[type, str] = {int: r"\d{1,15}", float: r"\d{1,15}(\.\d{1,9})?"}


def argument(metavar: str | None = None, help: str | None = None, **more: Any) -> Any:
    """Declares a positional argument: `x: str = argument(...)` in a command's parameters."""
    return typer.Argument(metavar=metavar, help=help, show_default=False, **more)


def option(
    *texts: str | None,
    default: Any = ...,
    panel: str | None = None,
    show_default: bool | None = None,
    **more: Any,
) -> Any:
    """Declares an option with a value. `texts` are the metavar and the help text, unless the
    docstring has them, and the names (`--x`) if they are not the parameter's. Without a `default`
    the option is None if its type allows that, and required otherwise."""
    names = [text for text in texts if text and text.startswith("-")]
    metavar, help, *_ = (*(text for text in texts if text not in names), None, None)
    shown = default is not ... if show_default is None else show_default
    about: Any = {"metavar": metavar, "help": help, "rich_help_panel": panel, **more}
    return typer.Option(default, *names, show_default=shown, **about)


def flag(name: str, help: str | None = None, *, panel: str | None = None, **more: Any) -> Any:
    """Declares an option without a value; it is False if not given."""
    return typer.Option(..., name, help=help, rich_help_panel=panel, **more)


def _complete(parameters: Iterable[inspect.Parameter], of: Any) -> None:
    """Gives parameters the texts that the docstring of `of` has for them (none under `python -OO`),
    and a default that follows from the type if they have none."""
    texts = docstrings.parameters(of)
    for parameter in parameters:
        name, about = parameter.name, parameter.default
        if isinstance(about, ParameterInfo):
            if about.help is None:
                about.metavar, about.help = texts.get(name, (name.upper(), None))
            if about.default is ... and parameter.annotation is bool:
                about.default = False
            elif about.default is ... and type(None) in get_args(parameter.annotation):
                about.default = None


class _Unconverted:
    """Value of a parameter that needs no conversion, or a simple one.

    typer would load pydantic for it, which takes a third of the time of `drivebay drives`."""

    def __init__(self, parameter: Any) -> None:
        self._parameter = parameter

    def coerce(self, value: Any, **more: Any) -> Any:
        parameter = self._parameter
        many = parameter.multiple or parameter.nargs == -1
        if value is None:
            return () if many else None
        described = parameter.type_descriptor
        kind = get_args(described.annotation)[0] if many else described.annotation
        values = [_simple(each, kind, described) for each in (value if many else [value])]
        if None not in values:
            return values if many else values[0]
        parameter._runtime_param = None  # as before the first value
        return parameter.get_runtime_param().coerce(value, **more)


def _simple(value: Any, kind: Any, described: Any) -> Any:
    """Converts a value as typer does; returns None for a wrong value, or one that is not simple."""
    if value in get_args(kind):  # of a Literal
        return value
    if kind in DIGITS and re.fullmatch(DIGITS[kind], str(value)):
        about, number = described.parameter_info, kind(value)
        low, high = (about.min or 0) <= number, about.max is None or number <= about.max
        return number if low and high else None
    if not isinstance(value, str):
        return None
    if kind is Path and (os.access(value, os.R_OK) or not os.path.exists(value)):
        return Path(value)
    return value if kind is str else None


def light(parameters: list[Any]) -> list[Any]:
    """Changes parameters so that those without a value cost no conversion."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.default is None:
            parameter.default = False
        if getattr(parameter, "_runtime_param", False) is None:
            parameter._runtime_param = _Unconverted(parameter)
    return parameters


def _only_common(
    quiet: bool = flag("--quiet", callback=be_quiet, expose_value=False),
    yes: bool = flag("--yes", hidden=True, expose_value=False),
) -> None:
    """Declares the options that every command has; it is never called.

    Parameters
    ----------
    quiet :
        Print no progress and no notes, only warnings, errors and results.
    yes :
        This command asks nothing.
    """


@cache
def _common() -> list[Any]:
    """Parameters of the common options."""
    app = Verb()
    app.command(cls=None)(_only_common)
    return list(typer.main.get_command(app).params)


def typed(ctx: Any, name: str) -> bool:
    """True if the parameter was given on the command line (not in a file)."""
    return bool(ctx.get_parameter_source(name).name == "COMMANDLINE")


def refuse(ctx: Any, panel: str, drive: str) -> None:
    """Raises UserError if an option of this panel was given, which the kind of drive lacks."""
    for parameter in ctx.command.params:
        if getattr(parameter, "rich_help_panel", None) == panel and typed(ctx, parameter.name):
            kind = "virtual" if panel == REAL else "real"
            raise UserError(
                f"{max(parameter.opts, key=len)} has no meaning for the {kind} drive {drive}",
                "leave it out",
            )


class Command(TyperCommand):
    """Command with its options under the headings of their panels, and with defaults from the
    user's file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names = {max(p.opts, key=len).removeprefix("--"): p.name for p in self.get_params(ctx)}
        verb = ctx.command_path.split()[1] if " " in ctx.command_path else ""
        root = ctx.find_root().command
        given = config.Defaults(verb, getattr(root, "commands", ()), names)
        if not {"-h", "--help"} & set(args):  # help works even with a bad file
            ctx.default_map = given
        rest: list[str] = super().parse_args(ctx, args)
        for name, path in (given.sources or {}).items():
            if ctx.get_parameter_source(name).name == "DEFAULT_MAP":
                option = next(key for key, value in names.items() if value == name)
                say(f"note: --{option} is set by {path}: {given[name]}")
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
        names = {parameter.name for parameter in own}
        return light(
            [*own, *(parameter for parameter in _common() if parameter.name not in names), last]
        )

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [p for p in self.get_params(ctx) if p.param_type_name == "argument"]
        return [
            "[OPTIONS]",
            *(f"{p.metavar}" if p.required else f"[{p.metavar}]" for p in arguments),
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for parameter in self.get_params(ctx):
            form, text = parameter.get_help_record(ctx) or ("", "")
            if parameter.param_type_name == "argument":
                text = text.replace("[required]", "").strip()
                sections["Arguments"].append((f"{parameter.metavar}", text))
            elif form:
                panel = getattr(parameter, "rich_help_panel", None)
                sections.setdefault(panel or "Options", []).append((form, text))
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Group(TyperGroup):
    """Group of commands; its help shows the whole summary of each."""

    panels: Mapping[str, Sequence[str]] | None = None
    """Commands by heading; None lists all under one heading."""

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
    """Returns the first paragraph of a command's help."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


class Verb(typer.Typer):
    """Typer application of one command's module."""

    def __init__(self, **more: Any) -> None:
        super().__init__(
            cls=Group,
            add_completion=False,
            rich_markup_mode=None,
            context_settings=SETTINGS,
            **more,
        )

    def command(self, *arguments: Any, **more: Any) -> Callable[[Any], Any]:
        """Declares a command. Its docstring is its help; "Examples:" begins the epilog, and
        "Parameters" the texts of its options."""
        declare = super().command

        def made(run: Callable[..., Any]) -> Any:
            doc = (inspect.getdoc(run) or "").partition("\n\nParameters\n")[0]
            text, marker, examples = doc.partition("\n\nExamples:\n")
            # "\b" keeps the lines of a paragraph as they are.
            epilog = "\b\n" + (marker.lstrip() + examples).replace("\n\n", "\n\n\b\n")
            about = {"cls": Command, "help": text, "epilog": epilog if marker else None, **more}
            _complete(inspect.signature(run, eval_str=True).parameters.values(), run)
            return declare(*arguments, **about)(run)

        return made


Given = TypeVar("Given")


def together(
    described: type[Given],
) -> Callable[[Callable[[typer.Context, Given], None]], Callable[..., None]]:
    """Passes a command's options as one object of a dataclass, whose fields and docstring describe
    them."""
    hints = get_type_hints(described, include_extras=True)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter("ctx", kind, annotation=typer.Context)]
    for field in dataclasses.fields(described):  # type: ignore[arg-type]
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        about: Any = {"default": default, "annotation": hints[field.name]}
        parameters.append(inspect.Parameter(field.name, kind, **about))
    _complete(parameters, described)

    def made(run: Callable[[typer.Context, Given], None]) -> Callable[..., None]:
        def command(ctx: typer.Context, **values: Any) -> None:
            run(ctx, described(**values))

        command.__name__, command.__doc__ = run.__name__, run.__doc__
        command.__annotations__ = {field.name: field.annotation for field in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return made


class Shared:
    """Options that several commands have.

    Parameters
    ----------
    json :
        Print JSON for scripts.
    seed : N
        Seed of all random choices.
    jobs : N
        Number of parallel workers; it does not change results. [default: as many as processors and
        memory allow]
    trust_network :
        Allow a scheduler without TLS that is not on loopback. Everybody who can reach its port, a
        worker's port or the network between them can then run programs as you (as root, where a
        worker has real drives).
    set : CHANGE
        Modify the profile: a variant (heatsink), unused=25%, link=pcie2x4, or any value
        (thermal.ambient_c=30). Repeatable.
    policy : FILE
        Load and use this policy plug-in (see: drivebay new-policy --help). RUNS ITS CODE with your
        rights.
    host : NAME
        Host to test the drive in: a name (see: drivebay hosts) or your own .toml file. [default:
        host of the drive's reviews]
    ailment : NAME
        Ailment of the drive: slow-die, hot and others (see: drivebay drives --ailments), aged:80%
        or your own .toml file. Repeatable.
    no_intervals :
        Omit the uncertainty intervals of virtual drives' figures.
    size : SIZE
        Create DRIVE first, as a new file of this size (4G).
    destroy_data : SERIAL
        Allow all data of DRIVE to be overwritten. SERIAL is the serial number of the block device,
        or the name of a file that contains data.
    overwrite_signature :
        With --destroy-data: also overwrite a partition table, a file system or other data that
        drivebay did not write (never if it is mounted, or part of LVM, RAID, ZFS, btrfs, bcache or
        LUKS). Tables and signatures are saved first.
    yes :
        Do not ask for confirmation (which only real drives need).
    no_wait :
        Exit with code 3 instead of waiting for a review of another drive behind the same
        controller, bridge or hub.
    format : F
        Format of the trace (list: drivebay trace info --help). [default: detected]
    time_unit :
        Unit of the trace's times. [default: unit of the format]
    columns : FIELD=COLUMN,...
        Columns of a CSV or Parquet file, for example time=ts:us,offset=lba:512,length=n,op=rw.
    to : iolog|csv|parquet
        Output format: fio's iolog version 3, CSV or Parquet. [default: from the file name]
    png : PICTURE
        Draw addresses and rate over time, and request sizes, into this PNG file.
    force :
        Overwrite existing output files.
    """


def _shared(name: str, **more: Any) -> Any:
    """Declares an option of `Shared`."""
    return option(*_TEXTS.get(name, ()), f"--{name.replace('_', '-')}", **more)


_TEXTS = docstrings.parameters(Shared)
CATALOG_NAME = "Catalog name (see: drivebay drives) or path of a profile (.toml)"
ANY_DRIVE = "Catalog name (see: drivebay drives), path of a profile (.toml), file or block device."
Drive = Annotated[str, argument("DRIVE", ANY_DRIVE, autocompletion=complete.drives)]
Json = Annotated[bool, _shared("json")]
Seed = Annotated[int, _shared("seed", show_default=True)]
Jobs = Annotated[int | None, _shared("jobs", min=1, max=1024)]
TrustNetwork = Annotated[bool, _shared("trust_network")]
Set = Annotated[list[str] | None, _shared("set", panel=VIRTUAL)]
Policy = Annotated[Path | None, _shared("policy", panel=VIRTUAL)]
Host = Annotated[str | None, _shared("host", panel=VIRTUAL, autocompletion=complete.hosts)]
Ailment = Annotated[
    list[str] | None, _shared("ailment", panel=VIRTUAL, autocompletion=complete.ailments)
]
NoIntervals = Annotated[bool, _shared("no_intervals")]
NewFileSize = Annotated[str | None, _shared("size", panel=REAL)]
DestroyData = Annotated[str | None, _shared("destroy_data", panel=REAL)]
OverwriteSignature = Annotated[bool, _shared("overwrite_signature", panel=REAL)]
Yes = Annotated[bool, _shared("yes")]
NoWait = Annotated[bool, _shared("no_wait", panel=REAL)]
TraceFormat = Annotated[str | None, _shared("format", panel=TRACE_FORMAT)]
TimeUnit = Annotated[
    Literal["s", "ms", "us", "ns"] | None, _shared("time_unit", panel=TRACE_FORMAT)
]
Columns = Annotated[str | None, _shared("columns", panel=TRACE_FORMAT)]
OutFormat = Annotated[str | None, _shared("to")]
Picture = Annotated[Path | None, _shared("png")]
Force = Annotated[bool, _shared("force")]
