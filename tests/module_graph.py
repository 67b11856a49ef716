"""Which module names which, read from the sources: for Python and for Rust, and the circles in it.

A module is a file. In Python every import counts, wherever it stands; `from package import name`
names the submodule, if `name` is one, otherwise the package's `__init__`. In Rust `use` and every
path that begins with `crate`, `super`, `self` or a child module counts; a name that a module only
re-exports counts as the module that defines it, so that a façade makes no circle. Code under
`#[cfg(test)]` does not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

Graph = dict[str, set[str]]

# --- Python ---------------------------------------------------------------------------------------


def module_of(path: Path, package: Path) -> tuple[str, bool]:
    """Dotted name of a source file below `package`, and whether it is an `__init__`."""
    parts = list(path.relative_to(package.parent).with_suffix("").parts)
    is_package = parts[-1] == "__init__"
    return ".".join(parts[:-1] if is_package else parts), is_package


def imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str, str | None]]:
    """Line, absolute module and imported name of every import; `package` resolves relative ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, None
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            module = ".".join([*base, node.module or ""]) if node.level else node.module or ""
            for alias in node.names:
                yield node.lineno, module.rstrip("."), alias.name


def python_graph(package: Path) -> Graph:
    """The modules below the folder `package`, each with the modules there that it imports."""
    files = [*package.rglob("*.py"), *package.rglob("*.pyi")]
    modules = {module_of(path, package): path for path in files}
    names = {name for name, _ in modules}
    graph: Graph = {}
    for (module, is_package), path in modules.items():
        inside = module if is_package else module.rpartition(".")[0]
        found = set()
        for _, base, name in imports(ast.parse(path.read_text()), inside):
            longest = f"{base}.{name}" if name else base
            found.add(longest if longest in names else base)
        graph[module] = found & names - {module}
    return graph


# --- Rust -----------------------------------------------------------------------------------------

_COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|r#".*?"#|"(?:\\.|[^"\\])*"', re.DOTALL)
_CHARACTER = re.compile(r"'(?:\\.|[^'\\])'")
_TEST_ITEM = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]")
_USE = re.compile(r"\b(pub(?:\([a-z ]+\))?\s+)?use\s+([^;]+);")
_PATH = re.compile(r"(?<![\w:])(?:\w+::)+\w+")


def rust_code(text: str) -> str:
    """The source without comments, texts and what is compiled for tests only."""
    code = _CHARACTER.sub("' '", _COMMENT_OR_TEXT.sub('""', text))
    while match := _TEST_ITEM.search(code):
        code = code[: match.start()] + code[_end_of_item(code, match.end()) :]
    return code


def _end_of_item(code: str, start: int) -> int:
    depth = 0
    for at in range(start, len(code)):
        if code[at] == "{":
            depth += 1
        elif code[at] == "}":
            depth -= 1
            if depth <= 0:
                return at + 1
        elif code[at] == ";" and depth == 0:
            return at + 1
    return len(code)


def use_paths(tree: str) -> Iterator[tuple[list[str], str]]:
    """The paths of one `use`, each with the name it gets here.

    >>> [("::".join(path), name) for path, name in use_paths("crate::{a::{self, B as C}, d::*}")]
    [('crate::a', 'a'), ('crate::a::B', 'C'), ('crate::d::*', '*')]
    """
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if brace:
        prefix = [part for part in head.replace(" ", "").split("::") if part]
        for branch in _branches(rest[: rest.rindex("}")]):
            for path, name in use_paths(branch):
                if path == ["self"]:
                    yield prefix, prefix[-1] if name == "self" else name
                else:
                    yield prefix + path, name
        return
    path_text, _, alias = tree.partition(" as ")
    path = path_text.replace(" ", "").split("::")
    yield path, alias.strip() or path[-1]


def _branches(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


class Crate:
    """The modules of one crate: what each file names, resolved to the files that define it."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        """`sources`: text by path below `src`, as in {"lib.rs": ..., "nvme/mod.rs": ...}."""
        self.code = {_rust_module(Path(path)): rust_code(text) for path, text in sources.items()}
        self.code = {
            module: code for module, code in self.code.items() if module[-1:] != ("tests",)
        }
        self.names: dict[tuple[str, ...], dict[str, list[str]]] = {}
        for module, code in self.code.items():
            uses = [use_paths(match[2]) for match in _USE.finditer(code)]
            self.names[module] = {name: path for found in uses for path, name in found}

    def graph(self) -> Graph:
        """Each module with the modules of the crate that it names, as "a::b"; "crate" is lib.rs."""
        graph: Graph = {}
        for module, code in self.code.items():
            uses = [path for match in _USE.finditer(code) for path, _ in use_paths(match[2])]
            paths = uses + [match[0].split("::") for match in _PATH.finditer(_USE.sub("", code))]
            found = {self.module_of(path, module) for path in paths}
            graph[_label(module)] = {_label(one) for one in found if one not in (None, module)}
        return graph

    def module_of(
        self, path: list[str], inside: tuple[str, ...], depth: int = 0
    ) -> tuple[str, ...] | None:
        """The module that defines what `path`, written in `inside`, names; None if not ours."""
        at, rest = inside, list(path)
        if rest[0] == "crate":
            at, rest = (), rest[1:]
        elif rest[0] in ("super", "self"):
            while rest and rest[0] in ("super", "self"):
                at, rest = (at[:-1] if rest[0] == "super" else at), rest[1:]
        elif (*inside, rest[0]) not in self.code:
            imported = self.names[inside].get(rest[0])
            if imported is None or imported[0] == rest[0] or depth > 8:
                return None
            return self.module_of([*imported, *rest[1:]], inside, depth + 1)
        while rest and (*at, rest[0]) in self.code:
            at, rest = (*at, rest[0]), rest[1:]
        if rest and rest[0] in (names := self.names.get(at, {})) and depth <= 8:
            deeper = self.module_of([*names[rest[0]], *rest[1:]], at, depth + 1)
            return deeper if deeper is not None else at
        return at if at in self.code else None


def _rust_module(path: Path) -> tuple[str, ...]:
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in ("lib", "main", "mod") else parts


def _label(module: tuple[str, ...] | None) -> str:
    return "::".join(module or ()) or "crate"


def rust_graph(source: Path) -> Graph:
    """The modules of the crate whose `src` folder this is."""
    return Crate({str(p.relative_to(source)): p.read_text() for p in source.rglob("*.rs")}).graph()


# --- circles --------------------------------------------------------------------------------------


def circles(graph: Graph) -> list[set[str]]:
    """The sets of modules that reach one another, largest first.

    >>> circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [{"b", "c"}]
    True
    """
    reach = {module: _reachable(graph, module) for module in graph}
    sets = {
        frozenset({module, *(other for other in reach[module] if module in reach.get(other, ()))})
        for module in graph
        if module in reach[module]
    }
    return sorted(map(set, sets), key=lambda found: (-len(found), sorted(found)))


def _reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    todo = list(graph[start])
    while todo:
        module = todo.pop()
        if module not in found:
            found.add(module)
            todo += graph.get(module, ())
    return found
