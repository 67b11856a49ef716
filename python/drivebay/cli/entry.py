"""The way in and out of the program: runs the app, turns every failure into its exit code.

A user's mistake prints two lines, `error:` and `hint:`. A bug prints its trace.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from drivebay.common import lean
from drivebay.common.errors import (
    EXIT_CHECK_FAILED,
    EXIT_DONE,
    EXIT_ENVIRONMENT,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    DrivebayError,
)

LINE_MAX = 2000
BAD_PATH = (errno.ENAMETOOLONG, errno.ELOOP)
"""What no command looks for, as only the path itself can be the cause."""
START = """\
try         drivebay review sm951-ahci-512 --suite quick         in some seconds
your disk   drivebay review disk.img --size 4G --suite quick     in two minutes
compare     drivebay report --bench                              all drives
throttling  drivebay review sm951-ahci-512 --only thermal-write  when, how far
serve       drivebay serve sm951-ahci-512 --nbd unix:nbd.sock  more: drivebay -h"""
"""What a command line without arguments prints: what people come for, and what to type for it."""
COMPLETING = "_DRIVEBAY_COMPLETE"
"""Set where a shell asks what could be typed next; the line so far is in the environment, too."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs `drivebay` with these arguments (default: the process's) and exits with its code."""
    if arguments is None:
        lean.without_pandas()
    code = run(list(sys.argv[1:] if arguments is None else arguments))
    if code == EXIT_INTERRUPTED:
        import threading  # here, as most runs need it not

        if any(one.daemon for one in threading.enumerate()):
            os._exit(code)  # what does not hear that it is to stop ends with the process
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Runs one command line and returns the exit code."""
    try:
        code = _run(arguments)
    except KeyboardInterrupt:  # also while modules are loaded, of which a command has many
        code = EXIT_INTERRUPTED
        say_error("interrupted", "nothing was left half-done; give the same command again")
    return code


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:  # typer alone would take twice as long as the answer
        from drivebay.common import provenance

        print(provenance.version_line())
        return EXIT_DONE
    import typer

    from drivebay.cli.app import app

    if not arguments and COMPLETING not in os.environ:
        print(START)
        return EXIT_DONE
    try:
        code = app(args=arguments, prog_name="drivebay", standalone_mode=False)
        sys.stdout.flush()
    except DrivebayError as problem:
        say_error(problem.message, problem.hint)
        return problem.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        # The reader of our output has gone (`drivebay drives | head -1`): nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CHECK_FAILED
    except OSError as problem:
        if problem.errno not in BAD_PATH:
            raise
        say_error(f"{problem.filename}: {problem.strerror}", "give another path")
        return EXIT_USAGE
    except ImportError as problem:
        if "_core" not in str(problem):
            raise
        say_error(
            f"the Rust core cannot be loaded: {problem}", "see what is wrong: drivebay doctor"
        )
        return EXIT_ENVIRONMENT
    except Exception as problem:
        if (words := _usage_error(problem, arguments)) is None:
            raise
        say_error(*words)
        return EXIT_USAGE
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    return code if isinstance(code, int) else EXIT_DONE


def say_error(message: str, hint: str) -> None:
    """The two lines of a failure, never wrapped."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    red, dim, off = ("\033[1;31m", "\033[36m", "\033[0m") if colour else ("", "", "")
    with contextlib.suppress(OSError):
        sys.stderr.write(
            f"{red}error:{off} {_one_line(message)}\n{dim}hint:{off} {_one_line(hint)}\n"
        )
        sys.stderr.flush()


def _usage_error(problem: Exception, arguments: list[str]) -> tuple[str, str] | None:
    """Message and hint for what the option parser raises; None for anything else.

    Told by their form and not by their class, which lies in another module from version to version.
    """
    text = getattr(problem, "format_message", None)
    if text is None:
        return None
    message = _one_line(text()).rstrip(".")
    context = getattr(problem, "ctx", None)
    command = context.command_path if context is not None else "drivebay"
    hint = f"see: {command} --help"
    message, bracket, possible = message.partition(" (Possible options: ")
    options = [] if context is None else context.command.params
    if message.endswith(" --with") and any("--set" in one.opts for one in options):
        bracket, possible = "(", "--set"
    if bracket:
        hint = f"did you mean {possible.rstrip(')')}? {hint}"
    return message[:1].lower() + message[1:], hint


def _one_line(text: str) -> str:
    """One line that can be read: a name of 5,000 letters is not shown in full."""
    from drivebay.common.documents import printable  # here, as --version does without

    line, half = printable(" ".join(text.split())), LINE_MAX // 2
    return line if len(line) <= LINE_MAX else f"{line[:half]} ... {line[-half:]}"
