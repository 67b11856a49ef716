"""The C library of the virtual drive: built, installed, and linked by programs in C and Python.

`crates/capi/tests` compares it with runs of the core.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import drivebay

TOP = Path(__file__).resolve().parent.parent
CAPI = TOP / "crates/capi"
DRIVE = "sm951-nvme-512"
CBINDGEN = "cbindgen@0.29.4"
REQUESTS = 20_000


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that scripts/capi.sh installed to, as built by `cargo test`."""
    for program in ("cc", "pkg-config", "cargo"):
        if not shutil.which(program):
            pytest.skip(f"{program} is missing")
    prefix = tmp_path_factory.mktemp("capi")
    wrapper = {"RUSTC_WORKSPACE_WRAPPER": "clippy-driver"} if shutil.which("clippy-driver") else {}
    words = [str(TOP / "scripts/capi.sh"), str(prefix), "checks"]
    subprocess.run(words, check=True, env=os.environ | wrapper)
    return prefix


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `drive.toml`, and `worn.state`, a state of that drive."""
    folder = tmp_path_factory.mktemp("drive")
    small = drivebay.drive(DRIVE).scaled(1 / 64)
    small.save(folder / "drive.toml")
    device = drivebay.drive(folder / "drive.toml").device()
    device.fill()
    device.run(drivebay.Workload(duration_s=1))
    device.save(folder / "worn.state")
    return folder


def compiled(source: Path, prefix: Path, folder: Path) -> list[str]:
    """A program, compiled with the flags that pkg-config returns."""
    environment = os.environ | {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    words = ["pkg-config", "--cflags", "--libs", "drivebay"]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    program = folder / source.stem
    warnings = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    path = f"-Wl,-rpath,{prefix / 'lib'}"
    subprocess.run(["cc", *warnings, source, path, *done.stdout.split(), "-o", program], check=True)
    return [str(program)]


def output(words: list[str], folder: Path) -> str:
    """What a program prints."""
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def test_c_and_cffi_get_the_same_from_new_and_saved_drives(
    installed: Path, drive: Path, tmp_path: Path
) -> None:
    pytest.importorskip("cffi")
    mixed = compiled(CAPI / "examples/mixed.c", installed, tmp_path)
    library, header = installed / "lib/libdrivebay.so", installed / "include/drivebay.h"
    python = [sys.executable, CAPI / "examples/mixed.py", library, header]
    for state in ("", "worn.state"):
        words = ["drive.toml", str(REQUESTS), *filter(None, [state])]
        result, cost = output([*mixed, *words], drive).splitlines()
        assert re.fullmatch(r"\d+ ns of processor time per request", cost)
        assert output([*map(str, python), *words], drive).strip() == result
    print(cost)


def test_the_example_in_c_is_short() -> None:
    assert len((CAPI / "examples/mixed.c").read_text().splitlines()) <= 60
    header = (CAPI / "include/drivebay.h").read_text()
    assert len(re.findall(r"^[a-z].* \*?drivebay_\w+\(", header, re.MULTILINE)) <= 12


def test_the_example_of_the_readme_runs(installed: Path, drive: Path, tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```c\n(.*?)^```", (CAPI / "README.md").read_text(), re.DOTALL | re.M)
    source = tmp_path / "example.c"
    source.write_text(shown)
    printed = output(compiled(source, installed, tmp_path), drive)
    assert re.fullmatch(r"request 7 is complete at \d+ ns\n", printed)


def test_the_static_library_and_cpp_link(installed: Path, drive: Path, tmp_path: Path) -> None:
    if not shutil.which("c++"):
        pytest.skip("c++ is missing")
    source, program = tmp_path / "main.cpp", tmp_path / "main"
    source.write_text(
        "#include <drivebay.h>\nint main() { return drivebay_capacity(nullptr) != 0; }\n"
    )
    include, library = f"-I{installed / 'include'}", installed / "lib/libdrivebay.a"
    flags = ["-Wall", "-Werror", include, "-o", str(program)]
    subprocess.run(["c++", *flags, source, library, "-lpthread", "-ldl", "-lm"], check=True)
    assert output([str(program)], drive) == ""


def test_the_header_has_the_functions_and_fields_of_the_source() -> None:
    source = (CAPI / "src/lib.rs").read_text()
    header = (CAPI / "include/drivebay.h").read_text()
    functions = re.findall(r'extern "C" fn (\w+)\((.*?)\)', source, re.DOTALL)
    declared = re.findall(r"^[a-z][^\n]* \*?(drivebay_\w+)\((.*?)\);", header, re.DOTALL | re.M)
    names = {name: re.findall(r"(\w+):", inside) for name, inside in functions}
    assert names == {
        name: re.findall(r"(\w+)(?:,|$)", inside.replace("void", "")) for name, inside in declared
    }
    constants = re.findall(r"^pub const (\w+)", source, re.MULTILINE)
    assert constants == re.findall(r"^#define (\w+) \d", header, re.MULTILINE)
    fields = re.findall(r"^    pub (\w+): ", source, re.MULTILINE)
    assert fields == re.findall(r"^  u?\w+ (\w+)(?:\[\w+\])?;", header, re.MULTILINE)


@pytest.mark.long
def test_cbindgen_generates_the_header(tmp_path: Path) -> None:
    """It is no dependency of the crate: DRIVEBAY_BLESS=1 writes the header again."""
    tools = TOP / ".tools/cbindgen"
    install = ["cargo", "install", "--quiet", "--locked", "--root", str(tools), CBINDGEN]
    subprocess.run(install, check=True)
    header = CAPI / "include/drivebay.h"
    made = header if os.environ.get("DRIVEBAY_BLESS") else tmp_path / "drivebay.h"
    words = ["--quiet", f"--config={CAPI / 'cbindgen.toml'}", f"--output={made}"]
    subprocess.run([tools / "bin/cbindgen", *words, CAPI / "src/lib.rs"], check=True)
    assert made.read_text() == header.read_text()


def test_the_pkg_config_file_has_the_version_of_the_crate() -> None:
    version = tomllib.loads((CAPI / "Cargo.toml").read_text())["package"]["version"]
    assert f"\nVersion: {version}\n" in (CAPI / "drivebay.pc").read_text()
