"""`drivebay new-drive`: creates a drive profile to fill in."""

from __future__ import annotations

from pathlib import Path

from drivebay.cli import complete
from drivebay.cli.options import argument, option


def new_drive(
    name: str = argument(),
    like: str = option(
        "--like", autocompletion=complete.drives, default="sm951-nvme-512", show_default=False
    ),
) -> None:
    """Create a profile for a drive of your own, NAME.toml.

    The profile starts with another drive's values. Its comments ask questions that data sheets,
    reviews or measurements answer, each with the values to set. Existing files are not overwritten.

    Examples:
      drivebay new-drive my-drive                      my-drive.toml
      drivebay new-drive my-drive --like 980-pro-1tb   like another drive
      drivebay review my-drive.toml --quick            test it

    Parameters
    ----------
    name : NAME
        Name of the profile: lower-case letters, digits and hyphens.
    like : DRIVE
        Most similar catalog drive.
    """
    from drivebay.common import documents, files
    from drivebay.definitions import profiles
    from drivebay.definitions.template import template

    base = profiles.load(like)
    text = template(name, base)
    path = Path(f"{name}.toml")
    profiles.from_document(documents.toml(text), where=str(path))
    files.write_new(path, text)
    print(f"{path}: answer its questions, then run: drivebay review {path} --quick")
