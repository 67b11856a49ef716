"""Each package stands alone: its README's example runs, and no file of it lies outside.

A package is one or several crates with one version and one changelog. Crates that need the text of
a host, an ailment or an interface have a copy of it, and those that need a drive a profile with all
its values; both are compared here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from test_classes import without_sources

from drivebay.common import documents
from drivebay.definitions import profiles
from drivebay.definitions.families import lay_over

TOP = Path(__file__).resolve().parent.parent
CRATES = TOP / "crates"
# Crate that names the package and has its changelog -> other crates of the package.
PACKAGES = {
    "drive": ("units",),
    "run": ("plugin", "capi"),
    "trace": ("replay",),
    "serve": ("wire", "crash"),
}
PACKAGE_OF = {crate: name for name, others in PACKAGES.items() for crate in (name, *others)}
WITH_EXAMPLE = (*PACKAGES, "wire", "crash")
EXAMPLE_LINES_MAX = 25
# The lab's example starts a worker process with all of its packages.
PYTHON_READMES = ("README.md", pytest.param("lab/README.md", marks=pytest.mark.long))

# Copy in a crate -> its original.
COPIES = {
    "drive/samples/windows-8.1-z97.toml": "hosts/windows-8.1-z97.toml",
    "drive/tests/profiles/windows-10-z270.toml": "hosts/windows-10-z270.toml",
    "plugin/tests/template/abi.rs": "python/drivebay/definitions/policy_template/src/abi.rs",
    "serve/tests/ailments/dying-flash.toml": "ailments/dying-flash.toml",
    "serve/tests/ailments/hot.toml": "ailments/hot.toml",
    "serve/tests/ailments/read-only-soon.toml": "ailments/read-only-soon.toml",
}

# Profile in a crate, without classes -> its base there.
PROFILES = {
    "drive/samples/sm951-ahci-512.toml": None,
    "drive/samples/sm951-nvme-256.toml": "drive/samples/sm951-ahci-512.toml",
    "drive/tests/profiles/970-evo-plus-1tb.toml": None,
}

# A text that names a file above the one that it is in, or above the crate.
ABOVE = re.compile(r'"/?((?:[\w-]+/)*\.\./[^"\s]*)"')
BLOCK = re.compile(r"^```(rust|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def manifest(crate: str) -> dict[str, Any]:
    """The crate's Cargo.toml."""
    return tomllib.loads((CRATES / crate / "Cargo.toml").read_text())


def example(readme: Path, language: str) -> str:
    """The only example of a README."""
    (found,) = BLOCK.findall(readme.read_text())
    assert found[0] == language
    return str(found[1])


def leaving(file: Path, text: str, folder: Path) -> list[str]:
    """Files outside the folder that a source file names."""
    places = {name: (file.parent / name).resolve() for name in ABOVE.findall(text)}
    if "CARGO_MANIFEST_DIR" in text:
        places |= {name: (folder / name).resolve() for name in places}
    return [name for name, place in places.items() if not place.is_relative_to(folder)]


@pytest.mark.parametrize("crate", PACKAGE_OF)
def test_no_file_of_a_crate_names_one_outside(crate: str) -> None:
    folder = CRATES / crate
    files = [path for path in folder.rglob("*.rs") if path.is_file()]
    assert files
    found = {str(path): leaving(path, path.read_text(), folder) for path in files}
    assert {path: names for path, names in found.items() if names} == {}
    assert not [path for path in folder.rglob("*") if path.is_symlink()]
    tables = (manifest(crate).get(key, {}) for key in ("dependencies", "dev-dependencies"))
    assert not [one for table in tables for one in table.values() if "path" in one]


def test_a_file_outside_is_found() -> None:
    file, folder = Path("/c/tests/unit/a.rs"), Path("/c")
    assert leaving(file, 'include_str!("../../samples/x.toml")', folder) == []
    assert leaving(file, 'include_str!("../../../drives/x.toml")', folder)
    assert leaving(file, '#[path = "unit/../../../../x.rs"]', folder)
    assert leaving(file, 'concat!(env!("CARGO_MANIFEST_DIR"), "/../drives")', folder)


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_is_like_its_original(copy: str) -> None:
    original = TOP / COPIES[copy]
    same = (CRATES / copy).read_bytes() == original.read_bytes()
    assert same, f"cp {original.relative_to(TOP)} crates/{copy}"


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_of_a_crate_has_all_values_of_the_catalogs(name: str) -> None:
    whole = documents.toml((CRATES / name).read_bytes())
    if base := PROFILES[name]:
        assert whole.pop("base") == Path(base).stem
        member, whole = whole, documents.toml((CRATES / base).read_bytes())
        lay_over(whole, member)
    assert not whole.keys() & {"base", "classes", "without"}
    complete = profiles.from_document(whole, where=name).resolved()
    assert without_sources(complete) == without_sources(profiles.load(Path(name).stem).resolved())


def test_every_text_beside_the_code_is_a_known_copy() -> None:
    beside = {str(path.relative_to(CRATES)) for path in CRATES.glob("*/[st]*/**/*.toml")}
    own = {f"trace/src/synth/{name}.toml" for name in ("destroyer", "heavy", "light")}
    assert beside - own == {name for name in {*COPIES, *PROFILES} if name.endswith(".toml")}


@pytest.mark.parametrize("crate", PACKAGE_OF)
def test_a_crate_can_be_packaged(crate: str) -> None:
    package = manifest(crate)["package"]
    assert package["version"] == manifest(PACKAGE_OF[crate])["package"]["version"]
    assert package["description"] and package["license"] and 1 <= len(package["keywords"]) <= 5
    workspace = tomllib.loads((TOP / "Cargo.toml").read_text())["workspace"]
    entry = workspace["dependencies"][f"drivebay-{crate}"]
    assert entry == {"path": f"crates/{crate}", "version": package["version"]}
    readme = (CRATES / crate / "README.md").read_text()
    assert readme.startswith(f"# drivebay-{crate}\n") and "Licence: Apache-2.0" in readme
    assert "](.." not in readme


@pytest.mark.parametrize("package", PACKAGES)
def test_a_changelog_begins_with_the_version(package: str) -> None:
    text = (CRATES / package / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions[0] == manifest(package)["package"]["version"]
    assert all(f"`drivebay-{crate}`" in text for crate in (package, *PACKAGES[package]))


@pytest.mark.parametrize("crate", WITH_EXAMPLE)
def test_the_example_of_a_readme_is_the_one_that_the_tests_run(crate: str) -> None:
    run = (CRATES / crate / "tests/readme.rs").read_text()
    assert "#[test]\nfn main() {" in run
    shown = example(CRATES / crate / "README.md", "rust")
    assert shown == run.split("\n\n", 1)[1].replace("#[test]\nfn main() {", "fn main() {")
    assert len(list(filter(str.strip, shown.splitlines()))) <= EXAMPLE_LINES_MAX
    assert "\nmod readme;" in (CRATES / crate / "tests/all.rs").read_text()


@pytest.mark.parametrize("readme", PYTHON_READMES)
def test_the_example_of_a_python_readme_runs(readme: str, tmp_path: Path) -> None:
    shown = example(TOP / "python/drivebay" / readme, "python")
    assert len(list(filter(str.strip, shown.splitlines()))) <= EXAMPLE_LINES_MAX
    environment = os.environ | {"PYTHONPATH": str(TOP / "python")}
    script = tmp_path / "example.py"
    script.write_text(shown)
    subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, check=True)


def test_the_table_of_packages_is_about_right() -> None:
    counted = subprocess.run(
        [sys.executable, "scripts/count_lines.py", "--rooms"],
        cwd=TOP,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    rooms = {
        room: int(count.replace(",", ""))
        for count, room in re.findall(r"([\d,]+)  (\S+)$", counted.stdout, re.MULTILINE)
    }
    rows = re.findall(
        r"^\| `([\w/]+)`[^|]*\|[^|]*\| ([\d.]+) \|$",
        (TOP / "ARCHITECTURE.md").read_text().split("## Packages")[1].split("\n## ")[0],
        re.MULTILINE,
    )
    lab = rooms["python/lab"]
    python = sum(count for room, count in rooms.items() if room.startswith("python/")) - lab
    expected = {"python/drivebay": python + rooms["py"], "python/drivebay/lab": lab} | {
        f"crates/{name}": sum(rooms[crate] for crate in (name, *others))
        for name, others in PACKAGES.items()
    }
    shown = {name: float(thousands) * 1000 for name, thousands in rows}
    assert shown == {name: pytest.approx(count, rel=0.1) for name, count in expected.items()}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all crates as `cargo package` publishes them."""
    folder = tmp_path_factory.mktemp("packages")
    names = [f"--package=drivebay-{crate}" for crate in PACKAGE_OF]
    command = ["cargo", "package", "--offline", "--no-verify", "--allow-dirty", *names]
    subprocess.run([*command, f"--target-dir={folder / 'target'}"], cwd=TOP, check=True)
    for crate in PACKAGE_OF:
        named = f"drivebay-{crate}-{manifest(crate)['package']['version']}"
        with tarfile.open(folder / f"target/package/{named}.crate") as archive:
            archive.extractall(folder, filter="data")
        (folder / named).rename(folder / crate)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_compiles_outside_of_this_tree(
    unpacked: Path, tmp_path: Path, package: str
) -> None:
    """With its tests; the other packages are dependencies."""
    own = (package, *PACKAGES[package])
    for crate in own:
        shutil.copytree(unpacked / crate, tmp_path / crate)
    places = {crate: (tmp_path if crate in own else unpacked) / crate for crate in PACKAGE_OF}
    patches = [f'drivebay-{crate} = {{ path = "{place}" }}' for crate, place in places.items()]
    workspace = ["[workspace]", 'resolver = "3"', f"members = {json.dumps(own)}"]
    lines = [*workspace, "[patch.crates-io]", *patches]
    (tmp_path / "Cargo.toml").write_text("\n".join(lines))
    shutil.copy(TOP / "Cargo.lock", tmp_path)
    command = ["cargo", "check", "--offline", "--workspace", "--all-targets"]
    subprocess.run([*command, f"--target-dir={unpacked / 'target'}"], cwd=tmp_path, check=True)
