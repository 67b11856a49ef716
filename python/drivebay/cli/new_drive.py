"""`drivebay new-drive`: the beginning of a drive's profile."""

from __future__ import annotations

from pathlib import Path

from drivebay.cli import complete, options
from drivebay.cli.options import argument, option

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay new-drive my-drive                      my-drive.toml
  drivebay new-drive my-drive --like 980-pro-1tb   like another drive
  drivebay review my-drive.toml --quick            a test of it"""
)
def new_drive(
    name: str = argument("NAME", "Small letters, digits and hyphens."),
    like: str = option(
        "DRIVE",
        "The most similar drive of the catalog.",
        "--like",
        autocompletion=complete.drives,
        default="sm951-nvme-512",
        show_default=False,
    ),
) -> None:
    """Start the profile of a drive of your own, NAME.toml.

    It begins as another drive and has the questions that published figures or measurements answer,
    each with the values that the answer sets. Nothing that exists is overwritten.
    """
    from drivebay.common import documents, files
    from drivebay.definitions import profiles
    from drivebay.definitions.template import template

    base = profiles.load(like)
    text = template(name, base)
    path = Path(f"{name}.toml")
    profiles.from_document(documents.toml(text), where=str(path))
    files.write_new(path, text)
    print(f"{path}: next, answer its questions; then: drivebay review {path} --quick")
