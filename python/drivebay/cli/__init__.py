"""The command line: words to calls, and nothing else.

Data goes to stdout, everything else to stderr. This room computes nothing: what it prints comes
from the rooms below it. They are imported when a command needs them, so that help comes at once.
"""

from drivebay.cli.entry import main

__all__ = ["main"]
