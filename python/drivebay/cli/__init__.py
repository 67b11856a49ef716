"""The command line: turns words into calls.

One module a verb holds its typer function and what it prints. Data goes to stdout, everything else
to stderr. This room computes nothing: the rooms below do, and are imported when a command needs
them, so that help comes at once.
"""

from drivebay.cli.entry import main

__all__ = ["main"]
