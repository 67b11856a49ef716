"""Page of exit codes, and of every error message of the program with its hint.

Collected from the sources: each place that raises a user error contains its two lines.
"""

from __future__ import annotations

import ast
from pathlib import Path

import drivebay
from docgen.markdown import page, plain, table

PACKAGE = Path(drivebay.__file__).resolve().parent

CODES = (
    ("0", "The command succeeded.", ""),
    (
        "1",
        "The command ran, and a check failed.",
        "a published row outside its bounds, old data after TRIM, failed requests of a replay",
    ),
    ("2", "The usage is wrong.", "an unknown name, a value out of range, a malformed file"),
    (
        "3",
        "The environment lacks something.",
        "fio, a permission, disk space or memory (see `drivebay doctor`); or a damaged result",
    ),
    ("130", "Ctrl-C or SIGTERM interrupted the command.", "finished steps are kept"),
)
KINDS = {"UserError": "2", "EnvironmentProblem": "3", "DrivebayError": "2", "Interrupted": "130"}
# Kind that `common.files.system_errors` raises unless another is given.
SYSTEM = "EnvironmentProblem"


def pages() -> dict[str, str]:
    """The page by its path in docs/."""
    introduction = """
This page lists exit codes and messages for users and scripts. A mistake prints two lines on stderr
and no stack trace: `error:` names the mistake, its place and the allowed values, and `hint:`
suggests a command or value. A stack trace is a bug in drivebay."""
    body = "## Exit codes\n\n" + table(("Code", "Meaning", "For example"), CODES)
    body += (
        "## Messages\n\nThis list is generated from the sources, by package; … stands for inserted "
        "text. The core checks the values of a profile: [Profiles of drives](profile.md) lists "
        "the allowed values.\n\n"
    )
    for room, rows in _messages().items():
        body += f"### {room}\n\n" + table(("error:", "hint:", "Code"), rows)
    return {"reference/errors.md": page("Errors and exit codes", introduction, body)}


def _messages() -> dict[str, list[tuple[str, str, str]]]:
    """Message, hint and exit code of each raise, by room."""
    messages: dict[str, list[tuple[str, str, str]]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        kinds = KINDS | {
            node.name: KINDS[base.id]
            for node in nodes
            if isinstance(node, ast.ClassDef)
            for base in node.bases
            if isinstance(base, ast.Name) and base.id in KINDS
        }
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in nodes:
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            kind, reason = node.func.id, ""
            if kind == "system_errors":  # adds the system's reason to the message
                kind = next((a.id for a in node.args[2:] if isinstance(a, ast.Name)), SYSTEM)
                reason = ": …"
            if kind in kinds and len(node.args) >= 2:
                message, hint = (_text_of(argument) for argument in node.args[:2])
                row = (plain(message + reason), plain(hint), kinds[kind])
                if message.strip("… ") and row not in messages.setdefault(room, []):
                    messages[room].append(row)
    return {room: rows for room, rows in messages.items() if rows}


def _text_of(node: ast.expr) -> str:
    """Text of an expression, with … for parts that are only known at run time."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text_of(node.left) + _text_of(node.right)
    if isinstance(node, ast.IfExp):
        return f"{_text_of(node.body)} / {_text_of(node.orelse)}"
    return "…"
