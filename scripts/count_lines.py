"""Counts code lines of the product by room: no blanks, comments or docstrings; `--rooms` lists."""

import ast
import re
import sys
from pathlib import Path

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(path: Path) -> int:
    """Number of lines of a Rust or Python file that hold code."""
    lines = path.read_text().split("\n")
    if path.suffix == ".rs":
        return sum(bool(re.match(r"\s*(?!//)\S", line)) for line in lines)
    texts = set()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            texts |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    numbered = enumerate(lines, start=1)
    return sum(bool(re.match(r"\s*[^#\s]", line)) and at not in texts for at, line in numbered)


rooms: dict[str, int] = {}
for file in [*Path("crates").glob("*/src/**/*.rs"), *Path("python/drivebay").glob("**/*.py")]:
    room = file.parts[1] if file.suffix == ".rs" else "python/" + "/".join(file.parts[2:-1][:1])
    rooms[room] = rooms.get(room, 0) + code_lines(file)
if "--rooms" in sys.argv:
    print("\n".join(f"{count:7,}  {room}" for room, count in sorted(rooms.items())))
print(f"{sum(rooms.values()):,} lines of code in {len(rooms)} rooms")
