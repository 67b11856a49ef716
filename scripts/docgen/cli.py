"""The command line's reference page."""

from __future__ import annotations

from docgen import commands
from docgen.markdown import code, fence, page, plain, table


def pages() -> dict[str, str]:
    """The page by its path in docs/."""
    body = "".join(_command(command) for command in commands.every())
    introduction = (
        "This page lists every command and option. It is generated from the program, and has the "
        "same text as `drivebay COMMAND --help` and `man drivebay`. Data goes to stdout, "
        "everything else to stderr. [Errors and exit codes](errors.md) lists the exit codes."
    )
    return {"reference/cli.md": page("Command line", introduction, body)}


def _command(command: commands.Command) -> str:
    parts = [f"## {command.path}\n\n", fence(command.usage), plain_paragraphs(command.description)]
    for head, options in (("Argument", command.arguments), ("Option", command.options)):
        rows = [(code(option.form), plain(option.description)) for option in options]
        parts.append(table((head, "Meaning"), rows))
    if command.epilog:
        parts.append(fence(command.epilog))
    return "".join(parts)


def plain_paragraphs(text: str) -> str:
    """Converts the paragraphs of a help text to Markdown."""
    return "".join(f"{plain(paragraph)}\n\n" for paragraph in text.split("\n\n"))
