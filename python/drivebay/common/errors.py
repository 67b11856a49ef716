"""Errors that a user can cause: one line of error and one line of hint.

All of them derive from `DrivebayError`; the command line prints them without a stack trace. Any
other exception that escapes is a bug and keeps its trace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

EXIT_DONE = 0
EXIT_CHECK_FAILED = 1
EXIT_USAGE = 2
EXIT_ENVIRONMENT = 3
EXIT_INTERRUPTED = 130


class DrivebayError(Exception):
    """Base of all errors that a user can cause and fix.

    Parameters
    ----------
    message :
        the problem, where it is, and the allowed values; one line, no trailing full stop.
    hint :
        something that the user can type or change next; one line.
    exit_code :
        1, 2, 3 or 130, see the constants of this module.
    """

    exit_code = EXIT_USAGE

    def __init__(self, message: str, hint: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code


class UserError(DrivebayError):
    """Wrong usage: an unknown name, a value out of range, a malformed file."""


class TraceOrderError(UserError):
    """A trace is too far out of order to stream: it must be sorted as a whole first."""


class EnvironmentProblem(DrivebayError):
    """The machine lacks something: fio, a permission, disk space."""

    exit_code = EXIT_ENVIRONMENT


class Cancelled(Exception):
    """The observer of a run cancelled it; nothing of the run is kept."""


class Interrupted(DrivebayError):
    """The user pressed Ctrl-C; finished work is kept."""

    exit_code = EXIT_INTERRUPTED


@contextlib.contextmanager
def named(what: str) -> Iterator[None]:
    """Adds the name of a document or an option to messages of a UserError raised inside."""
    try:
        yield
    except UserError as problem:
        raise UserError(f"{what}: {problem.message}", problem.hint) from None


def did_you_mean(name: str, known: Iterable[str], option: str = "") -> str:
    """Beginning of a hint: the name that was probably meant, in any letter case; empty if no name
    is close.

    >>> did_you_mean("Heatsnk", ["link", "heatsink"]), did_you_mean("x", ["heatsink"])
    ('did you mean heatsink? ', '')
    """
    import difflib  # imported here because most runs do not need it

    by_lower = {entry.lower(): entry for entry in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1)
    return f"did you mean {option}{by_lower[close[0]]}? " if close else ""
