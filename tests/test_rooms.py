"""The house has one way down: each room imports only rooms below it, in Python and in Rust.

ARCHITECTURE.md draws the picture that this file enforces. A new room is entered in one of the
tables below, with what it may know; an import that is not allowed there fails here by name.
Imports inside functions count as well: a circle that is only put off is still a circle.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import module_graph
import pytest

TOP = Path(__file__).resolve().parent.parent
PACKAGE = TOP / "python" / "drivebay"

# What everyone may import: errors, units, where the project's data lies, signals, memory.
GROUND = {"common"}

# Room -> rooms that it may import besides the ground.
PYTHON_ROOMS: dict[str, set[str]] = {
    "common": set(),
    "_core": set(),
    "definitions": {"_core"},
    "traces": {"_core"},
    "targets": {"_core", "definitions", "results"},
    "serving": {"_core", "definitions"},
    "crash": {"_core", "definitions", "serving"},
    "gate": {"analysis", "crash", "definitions", "library", "serving", "traces"},
    "results": {"definitions"},
    "analysis": {"definitions", "results"},
    "report": {"analysis", "definitions", "results"},
    "review": {"analysis", "definitions", "report", "results", "targets"},
    "library": {"_core", "analysis", "definitions", "targets", "traces"},
    "lab": {"_core", "analysis", "definitions", "report", "results", "review", "targets"},
    "cli": {
        "analysis",
        "crash",
        "definitions",
        "gate",
        "lab",
        "library",
        "report",
        "results",
        "review",
        "serving",
        "targets",
        "traces",
    },
    "__main__": {"cli"},
}

# Crate -> crates of ours that it may name as dependencies.
RUST_ROOMS: dict[str, set[str]] = {
    "units": set(),
    "drive": {"units"},
    "plugin": {"drive"},
    "trace": {"units"},
    "run": {"drive", "trace", "units"},
    "capi": {"run", "drive", "units"},
    "replay": {"trace", "units"},
    "wire": set(),
    "crash": {"drive", "units"},
    "serve": {"crash", "wire", "run", "drive", "units"},
    # benches, capi: only for the source distribution.
    "py": {
        "benches",
        "capi",
        "crash",
        "plugin",
        "run",
        "replay",
        "serve",
        "drive",
        "trace",
        "units",
    },
    "benches": {"crash", "run", "drive", "trace", "units"},
}

# Folder of the drive -> folders that it may import. `ground`: files that all may import.
DRIVE_ROOMS: dict[str, set[str]] = {
    "ground": set(),
    "profile": {"ground"},
    "plugin": {"ground", "profile"},
    "physics": {"ground", "profile"},
    "nand": {"ground", "profile", "plugin", "physics"},
    "host": {"ground", "profile"},
    "firmware": {"ground", "profile", "plugin", "physics", "nand", "host"},
    "device": {"ground", "profile", "physics", "host", "firmware"},
    "crate": {"ground", "profile", "physics", "firmware", "device"},
}
DRIVE_GROUND = {
    *("events", "io", "memory", "pacer", "per_stream", "persist", "policy_plugin"),
    *("operations", "samples", "stage", "superblock", "timeline", "victim_policies"),
}

# Folder of the report -> folders that it may import.
REPORT_ROOMS: dict[str, set[str]] = {
    "base": set(),
    "charts": {"base"},
    "render": {"base", "charts"},
    "kinds": {"base", "charts"},
    "peers": {"base", "charts", "render", "kinds"},
    "pages": {"base", "charts", "render", "kinds", "peers"},
}

# Folder or file of the server -> those that it may import. `ground`: files that all may import.
SERVE_ROOMS: dict[str, set[str]] = {
    "ground": set(),
    "faults": {"ground"},
    "namespace": {"ground"},
    "pacing": {"ground"},
    "pci": {"ground"},
    "store": {"ground"},
    "state": {"ground", "namespace", "store"},
    "interface": {"ground", "faults", "namespace", "pacing", "state", "store"},
    "engine": {"ground", "faults", "interface", "namespace", "pacing", "state", "store"},
    "event_loop": {"ground", "engine", "interface", "pacing"},
    "control": {"ground", "interface"},
    "nbd": {"ground", "interface", "namespace"},
    "ahci": {"ground", "event_loop", "interface", "pci"},
    "ublk": {"ground", "event_loop", "interface", "namespace"},
    "nvme": {"ground", "event_loop", "faults", "interface", "namespace", "pci", "state"},
}
SERVE_ROOMS["server"] = set(SERVE_ROOMS)
SERVE_ROOMS["crate"] = set(SERVE_ROOMS)
SERVE_GROUND = {"buffers", "error", "lock", "memory_limit", "request", "waker"}

# The virtual drive's model knows no wall clock, sockets or files of its own.
MODEL_CRATES = ("units", "drive")
FORBIDDEN_IN_MODEL = ("std::net", "std::time", "std::thread", "HashMap", "pyo3")


def room_of(module: str) -> str | None:
    """The room that a dotted module name belongs to; None outside of the package.

    >>> room_of("drivebay.targets.base")
    'targets'
    >>> room_of("numpy")
    """
    parts = module.split(".")
    if parts[0] != "drivebay":
        return None
    return parts[1] if len(parts) > 1 else ""


def violations(source: str, module: str, *, is_package: bool) -> list[str]:
    """What the file `module` imports although its room may not."""
    room = room_of(module)
    if not room:  # drivebay/__init__.py gathers the public names, from anywhere
        return []
    allowed = PYTHON_ROOMS[room] | GROUND | {room}
    package = module if is_package else module.rpartition(".")[0]
    found = []
    for line, base, name in module_graph.imports(ast.parse(source), package):
        # `from drivebay import data`: the room is the name.
        target = room_of(f"{base}.{name}" if base == "drivebay" and name else base)
        if target is not None and target not in allowed:
            found.append(f"{module}, line {line}: {room} must not import {target or 'drivebay'}")
    return found


def python_files() -> list[Path]:
    """Every Python source of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def rust_dependencies(manifest: Path) -> set[str]:
    """Our own crates that a Cargo.toml names, for tests and builds as well, without the prefix."""
    document = tomllib.loads(manifest.read_text())
    tables = [document, *document.get("target", {}).values()]
    names: set[str] = set()
    for table in tables:
        for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
            for name, value in table.get(kind, {}).items():
                real = value.get("package", name) if isinstance(value, dict) else name
                if real.startswith("drivebay-"):
                    names.add(real.removeprefix("drivebay-"))
    return names


def test_the_folders_of_the_report_import_in_one_direction() -> None:
    report = "drivebay.report."
    for module, others in module_graph.python_graph(PACKAGE).items():
        folder = module.removeprefix(report).partition(".")[0]
        if not module.startswith(report):
            continue
        inside = {other.removeprefix(report) for other in others if other.startswith(report)}
        above = {name.partition(".")[0] for name in inside} - REPORT_ROOMS[folder] - {folder}
        assert not above, f"{module} imports {above}"


def test_every_python_room_is_known() -> None:
    found = {
        room
        for path in python_files()
        if (room := room_of(module_graph.module_of(path, PACKAGE)[0]))
    }
    assert found <= PYTHON_ROOMS.keys(), "enter the new room in PYTHON_ROOMS, and draw it"


def test_python_rooms_import_only_downward() -> None:
    found: list[str] = []
    for path in python_files():
        module, is_package = module_graph.module_of(path, PACKAGE)
        found += violations(path.read_text(), module, is_package=is_package)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "rooms",
    [PYTHON_ROOMS, RUST_ROOMS, DRIVE_ROOMS, SERVE_ROOMS],
    ids=["python", "rust", "drive", "serve"],
)
def test_the_tables_themselves_hold_no_circle(rooms: dict[str, set[str]]) -> None:
    left = {room: set(below) for room, below in rooms.items()}
    while left:
        ground = {room for room, below in left.items() if not below & left.keys()}
        assert ground, f"a circle among {sorted(left)}"
        left = {room: below for room, below in left.items() if room not in ground}


def test_rust_crates_depend_only_downward() -> None:
    manifests = {path.parent.name: path for path in (TOP / "crates").glob("*/Cargo.toml")}
    assert manifests, "no crates found"
    assert manifests.keys() <= RUST_ROOMS.keys(), "enter the new crate in RUST_ROOMS, and draw it"
    for crate, manifest in sorted(manifests.items()):
        unwanted = rust_dependencies(manifest) - RUST_ROOMS[crate]
        assert not unwanted, f"crates/{crate} must not depend on {sorted(unwanted)}"


@pytest.mark.parametrize(
    ("crate", "rooms", "ground"),
    [("drive", DRIVE_ROOMS, DRIVE_GROUND), ("serve", SERVE_ROOMS, SERVE_GROUND)],
)
def test_folders_of_a_crate_import_only_downward(
    crate: str, rooms: dict[str, set[str]], ground: set[str]
) -> None:
    def folder(module: str) -> str:
        top = module.split("::")[0]
        return "ground" if top in ground else top

    graph = module_graph.rust_graph(TOP / "crates" / crate / "src")
    assert {folder(module) for module in graph} == rooms.keys(), "enter the folder"
    unwanted = [
        f"{module} must not name {other}"
        for module, named in graph.items()
        for other in named
        if folder(other) not in rooms[folder(module)] | {folder(module)}
    ]
    assert not unwanted, "\n".join(unwanted)


@pytest.mark.parametrize("crate", MODEL_CRATES)
def test_the_model_knows_no_outside_world(crate: str) -> None:
    sources = sorted((TOP / "crates" / crate / "src").rglob("*.rs"))
    assert sources
    for source in sources:
        code = [line.split("//")[0] for line in source.read_text().splitlines()]
        for number, line in enumerate(code, start=1):
            for word in FORBIDDEN_IN_MODEL:
                assert word not in line, f"{source.relative_to(TOP)}:{number}: {word}"


def source_folders() -> dict[str, Path]:
    """The Python package and the `src` folder of each crate."""
    crates = {path.parent.name: path for path in sorted((TOP / "crates").glob("*/src"))}
    return {"python": PACKAGE, **crates}


@pytest.mark.parametrize("room", source_folders())
def test_no_module_imports_itself_by_way_of_others(room: str) -> None:
    folder = source_folders()[room]
    make = module_graph.python_graph if room == "python" else module_graph.rust_graph
    circles = [", ".join(sorted(circle)) for circle in module_graph.circles(make(folder))]
    assert not circles, f"{room}: modules that import one another: {circles}"


def test_every_file_of_rust_tests_is_compiled() -> None:
    for binary in (TOP / "crates").glob("*/tests/all.rs"):
        listed = set(re.findall(r"^mod (\w+);", binary.read_text(), re.MULTILINE))
        files = {path.stem for path in binary.parent.glob("*.rs")} - {"all"}
        assert files <= listed, f"enter {sorted(files - listed)} in {binary.relative_to(TOP)}"


# --- the checker itself ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "from drivebay.review import run",
        "from drivebay import review",
        "import drivebay.review.plan",
        "from ..review import run",
        "from .. import review",
        "def late():\n    from drivebay import review",
        "import drivebay",
        "from drivebay import drive",
    ],
)
def test_an_upward_import_is_found_in_every_spelling(source: str) -> None:
    assert violations(source, "drivebay.results.writer", is_package=False)


@pytest.mark.parametrize(
    "source",
    [
        "from drivebay.definitions.suites import Test",
        "from drivebay.common import data, errors",
        "from .schema import Manifest",
        "from . import schema",
        "import numpy as np",
    ],
)
def test_downward_and_own_imports_are_fine(source: str) -> None:
    assert not violations(source, "drivebay.results.writer", is_package=False)


def test_a_relative_import_in_an_init_is_its_own_room() -> None:
    assert not violations("from .writer import write", "drivebay.results", is_package=True)
    assert violations("from ..cli import main", "drivebay.results", is_package=True)


def test_a_circle_of_python_modules_is_found_by_way_of_packages(tmp_path: Path) -> None:
    package = tmp_path / "room"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("from room.a import A\n")
    (package / "a.py").write_text("def late():\n    from room.deep import b\n")
    (package / "deep" / "__init__.py").write_text("")
    (package / "deep" / "b.py").write_text("from .. import a\n")
    graph = module_graph.python_graph(package)
    assert module_graph.circles(graph) == [{"room.a", "room.deep.b"}]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        pytest.param(
            {"lib.rs": "", "a.rs": "use crate::b::B;", "b.rs": "fn f() { crate::a::f() }"},
            [{"a", "b"}],
            id="use and path",
        ),
        pytest.param(
            {
                "lib.rs": "mod a; mod b; pub use a::A; pub use b::{B, C as D};",
                "a.rs": "use crate::D;",
                "b.rs": "struct B;",
            },
            [],
            id="a re-exported name belongs to the module that defines it",
        ),
        pytest.param(
            {"lib.rs": "", "a.rs": "mod c; use c::C; struct A;", "a/c.rs": "use super::A;"},
            [{"a", "a::c"}],
            id="parent and child",
        ),
        pytest.param(
            {
                "lib.rs": "",
                "a.rs": "use crate::b::B;",
                "b.rs": '// crate::a\nconst T: &str = "crate::a::A";\n'
                "#[cfg(test)]\nmod tests { use crate::a::A; }",
            },
            [],
            id="comments, texts and tests do not count",
        ),
    ],
)
def test_a_circle_of_rust_modules_is_found(
    sources: dict[str, str], expected: list[set[str]]
) -> None:
    assert module_graph.circles(module_graph.Crate(sources).graph()) == expected


def test_a_rust_dependency_is_seen_in_every_table(tmp_path: Path) -> None:
    manifest = tmp_path / "Cargo.toml"
    manifest.write_text(
        '[dependencies]\ndrivebay-run = { workspace = true }\nserde = "1"\n'
        '[dev-dependencies]\nother = { package = "drivebay-py", path = "x" }\n'
        "[target.'cfg(unix)'.dependencies]\ndrivebay-trace.workspace = true\n"
    )
    assert rust_dependencies(manifest) == {"run", "py", "trace"}
