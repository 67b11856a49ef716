"""An installed package has everything that the checkout has: the core, the project's data, the man
page; and it runs where there is no checkout. The source distribution has all that a build needs.

Built as `make wheel` does, but with the profile of the tests, whose core is in the cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent
DATA_FOLDERS = (
    *(
        "ailments",
        "catalog-results",
        "drives",
        "hosts",
        "published",
        "published/computed",
        "suites",
    ),
)
MAN_PAGE = "share/man/man1/drivebay.1"


def maturin(*arguments: str) -> None:
    """Runs maturin in the checkout."""
    command = [str(Path(sys.executable).with_name("maturin")), *arguments]
    result = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A freshly built wheel."""
    out = tmp_path_factory.mktemp("wheel")
    maturin("build", "--profile", "checks", "--locked", "-i", sys.executable, "-o", str(out))
    (built,) = out.glob("*.whl")
    assert "-abi3-" in built.name, "one wheel serves every Python from 3.11 on"
    return built


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    """Names of the files in it."""
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize("folder", DATA_FOLDERS)
def test_the_data_is_in_the_wheel(wheel_names: set[str], folder: str) -> None:
    files = [path.name for path in (TOP / folder).iterdir() if path.is_file()]
    assert files
    missing = {f"drivebay/_data/{folder}/{name}" for name in files} - wheel_names
    assert not missing


def test_the_core_and_its_types_are_in_the_wheel(wheel_names: set[str]) -> None:
    assert {"drivebay/_core.abi3.so", "drivebay/_core.pyi", "drivebay/py.typed"} <= wheel_names


def test_every_source_file_is_in_the_wheel(wheel_names: set[str]) -> None:
    assets = (TOP / "python" / "drivebay" / "report" / "assets").iterdir()
    template = TOP / "python" / "drivebay" / "definitions" / "policy_template"
    templates = [path for path in template.rglob("*") if path.is_file()]
    sources = [*(TOP / "python").rglob("*.py"), *assets, *templates]
    missing = {str(path.relative_to(TOP / "python")) for path in sources} - wheel_names
    assert not missing


def test_the_wheel_runs_where_there_is_no_checkout(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, which has of this one only the packages that drivebay needs."""
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    install = ["-m", "pip", "install", "-q", "--no-index", "--no-deps", str(wheel)]
    subprocess.run([place / "bin/python", *install], check=True)
    assert (place / MAN_PAGE).is_file()
    # Put on the path, the folder's own .pth files are not read: the checkout stays out.
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    done = subprocess.run(
        [place / "bin/drivebay", "doctor", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    basics = {one["name"]: one for one in json.loads(done.stdout)["findings"] if one["basic"]}
    assert basics["Rust core"]["state"] == "ok"
    where = "import drivebay; print(drivebay.__file__, drivebay.drive('xp941-512').capacity_bytes)"
    said = subprocess.check_output(
        [place / "bin/python", "-c", where], cwd=tmp_path, env=environment, text=True
    )
    assert said.startswith(str(place)) and said.endswith(" 512110190592\n")


def test_the_source_distribution_has_what_a_build_needs(tmp_path: Path) -> None:
    maturin("sdist", "-o", str(tmp_path))
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        members = {member.name.partition("/")[2]: member for member in archive}
    assert all(member.isfile() for member in members.values()), "no links: they would dangle"
    needed = {"Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "pyproject.toml"}
    needed |= {f"packaging/wheel/data/{MAN_PAGE}", "python/drivebay/_core.pyi"}
    needed |= {str(path.relative_to(TOP)) for path in (TOP / "crates").glob("*/src/**/*.rs")}
    needed |= {str(path.relative_to(TOP)) for path in (TOP / "python").rglob("*.py")}
    for folder in DATA_FOLDERS:
        files = [path.name for path in (TOP / folder).iterdir() if path.is_file()]
        needed |= {f"python/drivebay/_data/{folder}/{name}" for name in files}
    assert not needed - members.keys()
