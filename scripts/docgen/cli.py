"""The command line's reference page."""

from __future__ import annotations

from docgen import commands
from docgen.markdown import code, fence, page, plain, table


def pages() -> dict[str, str]:
    """The page by its path in docs/."""
    body = "".join(_command(command) for command in commands.every())
    introduction = (
        "Generated from the program: what `drivebay COMMAND --help` prints. Data goes to stdout, "
        "everything else to stderr. The exit codes are [here](errors.md). A man page says the "
        "same: `man drivebay`."
    )
    return {"reference/cli.md": page("Command line", introduction, body)}


def _command(command: commands.Command) -> str:
    parts = [f"## {command.path}\n\n", fence(command.usage), plain_paragraphs(command.description)]
    for head, options in (("Argument", command.arguments), ("Option", command.options)):
        rows = [(code(option.form), plain(option.description)) for option in options]
        parts.append(table((head, "What it does"), rows))
    if command.epilog:
        parts.append(fence(command.epilog))
    return "".join(parts)


def plain_paragraphs(text: str) -> str:
    """Converts the paragraphs of a help text to Markdown."""
    return "".join(f"{plain(paragraph)}\n\n" for paragraph in text.split("\n\n"))
