"""Entry point of the program: runs the app and turns every failure into an exit code.

A user's mistake prints two lines, `error:` and `hint:`. A bug prints a stack trace.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from drivebay.common import errors, lean

LINE_MAX = 2000
# Errors that no command checks for, as only the path itself can cause them.
BAD_PATH = (errno.ENAMETOOLONG, errno.ELOOP)
# Output of a command line without arguments: common tasks and their commands.
START = """\
try         drivebay review sm951-ahci-512 --suite quick         in some seconds
your disk   drivebay review disk.img --size 4G --suite quick     in two minutes
compare     drivebay report --bench                              all drives
throttling  drivebay review sm951-ahci-512 --only thermal-write  when, how far
serve       drivebay serve sm951-ahci-512 --nbd unix:nbd.sock  more: drivebay -h"""
# Environment variable that a shell sets when it asks for completions.
COMPLETING = "_DRIVEBAY_COMPLETE"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs `drivebay` with these arguments (default: the process's) and exits with its code."""
    if arguments is None:
        lean.without_pandas()
    code = run(list(sys.argv[1:] if arguments is None else arguments))
    if code == errors.EXIT_INTERRUPTED:
        import threading  # here, as most runs do not need it

        if any(thread.daemon for thread in threading.enumerate()):
            os._exit(code)  # ends threads that do not react to the interrupt
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Runs one command line and returns the exit code."""
    try:
        code = _run(arguments)
    except KeyboardInterrupt:  # also while a command's modules are loaded
        code = errors.EXIT_INTERRUPTED
        say_error("interrupted", "no partial output is left; run the same command again")
    return code


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:  # loading typer would take twice as long
        from drivebay.common import provenance

        print(provenance.version_line())
        return errors.EXIT_DONE
    import typer

    from drivebay.cli.app import app

    if not arguments and COMPLETING not in os.environ:
        print(START)
        return errors.EXIT_DONE
    try:
        code = app(args=arguments, prog_name="drivebay", standalone_mode=False)
        sys.stdout.flush()
    except errors.DrivebayError as problem:
        say_error(problem.message, problem.hint)
        return problem.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        # The reader of the output has gone (`drivebay drives | head -1`), which is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.EXIT_CHECK_FAILED
    except OSError as problem:
        if problem.errno not in BAD_PATH:
            raise
        say_error(f"{problem.filename}: {problem.strerror}", "use another path")
        return errors.EXIT_USAGE
    except ImportError as problem:
        if "_core" not in str(problem):
            raise
        say_error(
            f"the Rust core cannot be loaded: {problem}", "find the cause with: drivebay doctor"
        )
        return errors.EXIT_ENVIRONMENT
    except Exception as problem:
        if (lines := _usage_error(problem, arguments)) is None:
            raise
        say_error(*lines)
        return errors.EXIT_USAGE
    if code == errors.EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    return code if isinstance(code, int) else errors.EXIT_DONE


def say_error(message: str, hint: str) -> None:
    """Prints the two lines of a failure, never wrapped."""
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
    """Message and hint for an error of the option parser; None for other errors.

    The error is recognized by its attributes, as its class moves between modules from version to
    version.
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
    if message.endswith(" --with") and any("--set" in parameter.opts for parameter in options):
        bracket, possible = "(", "--set"
    if bracket:
        hint = f"did you mean {possible.rstrip(')')}? {hint}"
    return message[:1].lower() + message[1:], hint


def _one_line(text: str) -> str:
    """Returns the text as one printable line, cut in the middle if it is very long."""
    from drivebay.common.documents import printable  # here, as --version does not need it

    line, half = printable(" ".join(text.split())), LINE_MAX // 2
    return line if len(line) <= LINE_MAX else f"{line[:half]} ... {line[-half:]}"
