"""A release is one version everywhere, and its workflow calls what exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
WORKFLOWS = TOP / ".github/workflows"


def test_the_version_is_the_same_everywhere() -> None:
    def first(file: str, pattern: str) -> str:
        found = re.search(pattern, (TOP / file).read_text(), re.MULTILINE)
        assert found, file
        return found[1]

    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["version"]
    workspace = tomllib.loads((TOP / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert project == workspace == first("CITATION.cff", r"^version: (.*)$")
    assert project == first("CHANGELOG.md", r"^## (?:(?:\d{4}-\S*)\n[\s\S]*?^## )?(\d[\d.]*),")
    locked = tomllib.loads((TOP / "Cargo.lock").read_text())["package"]
    assert [one["version"] for one in locked if one["name"] == "drivebay-py"] == [project]


def test_workflows_call_scripts_and_targets_that_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (TOP / "Makefile").read_text(), re.MULTILINE)
    for workflow in WORKFLOWS.glob("*.yml"):
        text = re.sub("#.*", "", workflow.read_text())
        assert all((TOP / script).is_file() for script in re.findall(r"scripts/[\w.]+", text))
        assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= set(targets), workflow.name


def test_a_release_is_published_only_after_its_wheels_were_installed() -> None:
    text = (WORKFLOWS / "release.yml").read_text()
    jobs = dict(re.findall(r"^  (\w+):\n((?:    .*\n)+)", text.partition("\njobs:\n")[2], re.M))
    assert jobs.keys() == {"build", "install", "pypi", "github"}
    assert "needs: build" in jobs["install"]
    for job in ("pypi", "github"):
        assert "needs: install" in jobs[job] and "id-token: write" in jobs[job]
    assert "id-token" not in jobs["build"] + jobs["install"] and "password:" not in jobs["pypi"]
