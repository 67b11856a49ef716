"""The command line: turns arguments into calls.

Each command has a module with its typer function and its output. Data goes to stdout, everything
else to stderr. This package computes nothing. It imports the packages below only when a command
needs them, so that `--help` is fast.
"""

from drivebay.cli.entry import main

__all__ = ["main"]
