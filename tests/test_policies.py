"""Policy plug-ins: real libraries decide as they should, and only those that the owner has loaded.

The plug-ins are the template as it is, and tests/data/policies.c, compiled against the template's
policy.h.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_cli import must_fail, run

import drivebay
from drivebay import _core, policies
from drivebay.common.errors import DrivebayError, EnvironmentProblem, UserError
from drivebay.definitions import suites
from drivebay.lab.sweep import plan, spec
from drivebay.targets.base import Progress
from drivebay.targets.virtual.target import VirtualTarget

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SOURCE = Path(__file__).resolve().parent / "data" / "policies.c"
DRIVE = drivebay.drive("sm951-ahci-512").with_(victim_policy="greedy").scaled(1 / 128)
WRITES = drivebay.Workload(read_percent=0, bytes=DRIVE.capacity_bytes // 4)
Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles the plug-in of a macro to lib<name>.so in a folder of its own."""

    def built(macro: str, name: str = "", *flags: str) -> Path:
        path = tmp_path_factory.mktemp("policy") / f"lib{name or macro.lower()}.so"
        words = ["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", f"-D{macro}", *flags]
        subprocess.run([*words, f"-I{policies.TEMPLATE}", "-o", path, SOURCE], check=True)
        return path

    return built


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> policies.Policy:
    """The crate of `drivebay new-policy`, as cargo compiles it but for its metadata."""
    path = tmp_path_factory.mktemp("template") / "libtemplate.so"
    words = ["rustc", "--edition=2024", "--crate-type=cdylib", "-O", "-Cpanic=abort", "-Dwarnings"]
    name = "--crate-name=template"
    subprocess.run([*words, name, "-o", path, policies.TEMPLATE / "src/lib.rs"], check=True)
    return drivebay.load_policy(path)


def written(drive: drivebay.Drive, seed: int = 1) -> drivebay.Device:
    """The drive after a fill and random writes of its size."""
    device = drive.device(seed=seed)
    device.fill()
    device.run(WRITES)
    return device


def counted(device: drivebay.Device) -> tuple[_core.Counters, _core.Health]:
    """All that a drive has counted: two that agree have taken the same decisions."""
    return device._core.counters(), device._core.health()


@pytest.fixture(scope="module")
def own() -> tuple[_core.Counters, _core.Health]:
    """What the drive comes to that decides by itself, greedily."""
    return counted(written(DRIVE))


def decisions(device: drivebay.Device) -> _core.Decisions:
    asked = device._core.decisions()
    assert asked is not None
    return asked


def with_plugin(policy: policies.Policy, drive: drivebay.Drive = DRIVE) -> drivebay.Drive:
    return drive.with_(policy=policy.reference)


def test_the_templates_greedy_does_bit_for_bit_what_the_drives_own_does(
    template: policies.Policy, own: Any
) -> None:
    outside = written(with_plugin(template))
    assert counted(outside) == own
    asked, alike = decisions(outside).victims or (0, 0)
    assert asked > 100 > alike


def test_functions_of_ctypes_and_a_library_in_c_decide_the_same_too(build: Build, own: Any) -> None:
    def choose(_state: Any, drive: Any, superblocks: Any) -> int:
        seen = ((i, superblocks[i]) for i in range(drive[0].superblocks))
        return min((s.valid, -s.age, i) for i, s in seen if s.candidate)[2]

    called = policies.from_functions(
        "called", version="1", choose_victim=policies.ChooseVictim(choose)
    )
    for policy in (called, drivebay.load_policy(build("GREEDY"))):
        assert counted(written(with_plugin(policy))) == own


def test_the_oldest_superblock_full_or_not_gives_what_fifo_gives(build: Build) -> None:
    flash = drivebay.drive(EXAMPLES / "figures" / "flash.toml")
    load = drivebay.Workload(
        queue_depth=1, offsets="zoned:90/10:10/90", bytes=2 * flash.capacity_bytes
    )

    def cycled(drive: drivebay.Drive) -> drivebay.Device:
        device = drive.device()
        device.fill()
        device.run(load)
        return device

    oldest = cycled(with_plugin(drivebay.load_policy(build("OLDEST")), flash))
    assert counted(oldest) == counted(cycled(flash.with_(victim_policy="fifo")))
    with pytest.raises(UserError, match="answered choose_victim with"):
        cycled(with_plugin(drivebay.load_policy(build("FULL")), flash))


def test_a_frontier_chosen_as_by_lifespan_gives_what_that_gives(build: Build) -> None:
    by_lifespan = DRIVE.resolved()
    by_lifespan["gc"]["host_frontiers"] = {"value": "by-lifespan", "source": "guess: a test"}
    outside = written(with_plugin(drivebay.load_policy(build("LIFESPAN"))))
    assert counted(outside) == counted(written(drivebay.drive(by_lifespan)))
    asked, second = decisions(outside).writes or (0, 0)
    assert asked > second > 0


def test_a_wrong_answer_in_a_member_ends_an_arrays_run_and_loses_no_drive() -> None:
    policy = policies.from_functions(
        "wrong", version="1", open_superblock=policies.OpenSuperblock(lambda *_: 1 << 20)
    )
    devices = [with_plugin(policy).device(seed=1), DRIVE.device(seed=2)]
    few = drivebay.Workload(ios=10)  # before any garbage collection, which would see it
    with pytest.raises(UserError, match="answered open_superblock with 1048576"):
        drivebay.Array(devices, "1").run(few)
    assert all(device.health().host_writes == 10 for device in devices)


def test_a_pace_of_twice_as_much_copies_more(build: Build, own: Any) -> None:
    eager = written(with_plugin(drivebay.load_policy(build("EAGER"))))
    asked, changed = decisions(eager).paces or (0, 0)
    assert asked == changed > 1000
    assert eager._core.counters().copied_pages > own[0].copied_pages


def test_a_table_that_ends_where_the_first_ones_ended_does_what_it_did(build: Build) -> None:
    of_today, first = (drivebay.load_policy(build(macro)) for macro in ("EAGER", "FIRST_TABLE"))
    assert counted(written(with_plugin(of_today))) == counted(written(with_plugin(first)))


def leveled(dynamic: bool) -> drivebay.Drive:
    """The drive with or without wear levelling of its own."""
    raw = DRIVE.resolved()
    raw["wear_leveling"] = {"dynamic": {"value": dynamic, "source": "guess: a test"}}
    return drivebay.drive(raw)


def rewritten(drive: drivebay.Drive) -> drivebay.Device:
    """The drive after a fill and a sixteenth of it rewritten until that part's flash is worn."""
    device = drive.device(seed=1)
    device.fill()
    part = drive.capacity_bytes // 16
    device.run(drivebay.Workload(span_bytes=part, bytes=8 * part))
    return device


def erases(device: drivebay.Device) -> list[int]:
    """Of each superblock."""
    load = drivebay.Workload(read_percent=100, ios=1)
    inside = device.copy()._run(load, 1, 0, True).inside
    assert inside is not None
    found: list[int] = inside.superblocks["erases"].to_pylist()
    return found


def test_data_that_a_policy_moves_for_its_wear_costs_copies(build: Build) -> None:
    policy = drivebay.load_policy(build("LEVEL", "", "-DSPREAD_MAX=2"))
    plain = rewritten(leveled(False))
    outside = rewritten(with_plugin(policy, leveled(False)))
    asked, moved = decisions(outside).levelings or (0, 0)
    assert asked > moved > 0
    copied = [one._core.counters().copied_pages for one in (outside, plain)]
    assert copied[0] > copied[1], copied


def test_opening_the_most_worn_superblock_spreads_wear_less_than_the_least_worn(
    build: Build,
) -> None:
    spread = {}
    for macro in ("LEAST_WORN", "MOST_WORN"):
        device = rewritten(with_plugin(drivebay.load_policy(build(macro)), leveled(False)))
        asked, changed = decisions(device).opens or (0, 0)
        assert asked >= changed > 0
        spread[macro] = max(erases(device))
    own = max(erases(rewritten(leveled(True))))
    assert spread["LEAST_WORN"] == own < spread["MOST_WORN"]


@pytest.mark.filterwarnings("ignore:policy reads0")
def test_reads_wait_for_programs_as_a_policy_says(build: Build) -> None:
    load = drivebay.Workload(read_percent=70, queue_depth=8, ios=20_000)
    worn = written(DRIVE)
    worn.run(load, seed=9)
    latency = []
    for answer in range(3):
        policy = drivebay.load_policy(build("READS", f"reads{answer}", f"-DANSWER={answer}"))
        device = written(with_plugin(policy))
        run = device.run(load, seed=9)
        asked, delayed = decisions(device).die_reads or (0, 0)
        assert asked > delayed == 0 if answer == 0 else asked >= delayed > 1000
        latency.append(run.read_latency.mean_us)
        if answer == 0:
            assert counted(device) == counted(worn), "what it suspends, the drive does as well"
        copy = device.copy()
        assert counted(copy) == counted(device)
        for one in (device, copy):
            one.run(load, seed=10)
        assert counted(copy) == counted(device)
    assert latency[0] < latency[1] < latency[2]


def test_no_policy_schedules_reads_where_planes_read_by_themselves(build: Build) -> None:
    policy = drivebay.load_policy(build("READS", "reads0", "-DANSWER=0"))
    with pytest.raises(UserError, match="planes of a die read independently"):
        drivebay.drive("t700-2tb").with_(policy=policy.reference)


@pytest.mark.filterwarnings("ignore:policy retried0")
def test_data_that_needed_retries_is_moved_if_a_policy_says_so(build: Build) -> None:
    raw = drivebay.drive("970-evo-plus-1tb").scaled(12 / 1104).resolved()
    raw["reliability"]["fresh_rber"]["value"] = 6e-3
    retries = []
    for answer in range(2):
        policy = drivebay.load_policy(build("RETRIED", f"retried{answer}", f"-DANSWER={answer}"))
        device = with_plugin(policy, drivebay.drive(raw)).device()
        device.fill()
        device.run(drivebay.Workload(read_percent=100, queue_depth=8, ios=20_000))
        asked, moved = decisions(device).retried or (0, 0)
        assert asked > 0 and moved == answer * asked
        retries.append(device.counters().copied_pages)
    assert retries[0] < retries[1]


def test_the_state_goes_with_the_drive_and_begins_from_its_seed(
    build: Build, tmp_path: Path
) -> None:
    drive = with_plugin(drivebay.load_policy(build("RANDOM")))
    device = written(drive)
    copy = device.copy()
    device.save(tmp_path / "state")
    restored = drivebay.Device.load(tmp_path / "state")
    ends = []
    for one in (device, copy, restored):
        one.run(drivebay.Workload(read_percent=0, bytes=2**27), seed=9)
        ends.append(counted(one))
    assert ends[0] == ends[1] == ends[2]
    assert ends[0] != counted(written(drive, seed=2))


def test_an_answer_that_is_not_allowed_ends_the_run_with_the_policys_name(build: Build) -> None:
    wrong = drivebay.load_policy(build("WRONG"))
    with pytest.raises(UserError, match=r"policy wrong@\w{16} answered choose_victim with \d+"):
        written(with_plugin(wrong))


def test_what_is_no_plugin_of_this_version_is_refused(build: Build, tmp_path: Path) -> None:
    text, library = tmp_path / "text.so", tmp_path / "other.so"
    text.write_text("no library")
    (tmp_path / "other.c").write_text("int other;")
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "other.c")]
    subprocess.run(command, check=True)
    refused: dict[Path, tuple[type[DrivebayError], str]] = {
        text: (EnvironmentProblem, "not a shared library for this machine"),
        tmp_path / "gone.so": (EnvironmentProblem, "cannot be read"),
        library: (UserError, "does not export drivebay_policy"),
        build("NEWER"): (UserError, "version 99 of the interface"),
        build("GREEDY", "in valid"): (UserError, "a name has 1 to 64 letters"),
    }
    for path, (kind, why) in refused.items():
        with pytest.raises(kind, match=why) as problem:
            drivebay.load_policy(path)
        assert problem.value.hint


def test_a_profile_names_code_and_never_loads_it(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build("GREEDY", "named")
    for name in ("named", str(path)):
        with pytest.raises(UserError, match="is not loaded"):
            DRIVE.with_(policy=name)
    raw = DRIVE.resolved()
    raw["gc"]["plugin"] = {"value": "named", "source": "a stranger's profile"}
    with pytest.raises(UserError, match="policy named is not loaded"):
        drivebay.drive(raw)
    monkeypatch.setenv(policies.VARIABLE, str(path.parent))
    pinned = drivebay.drive(raw).value("gc.plugin")
    assert pinned == policies.find("named").reference
    raw["gc"]["plugin"]["value"] = "named@" + "0" * 16
    with pytest.raises(UserError, match=f"another build of it is loaded: {pinned}"):
        drivebay.drive(raw)


def test_another_build_of_a_policy_is_another_drive_and_another_sweep(build: Build) -> None:
    first = drivebay.load_policy(build("GREEDY", "twice"))
    table = {
        "name": "a", "drives": ["sm951-ahci-512"], "seeds": 1, "suite": "quick",
        "parameters": [{"name": "policy", "values": ["none", "twice"]}],
    }  # fmt: skip
    made = plan.make(spec.parse(table, where="a"), where="a")
    kept = json.dumps(made.as_json(), sort_keys=True)
    assert plan.from_json(kept).policies == {"twice": first.reference}
    drives = [made.profile(made.point(i)).raw["gc"].get("plugin") for i in (0, made.runs - 1)]
    assert drives[0] is None and drives[1]["value"] == first.reference
    other = kept.replace(first.digest, "0" * 16)
    with pytest.raises(plan.OtherBuild, match=first.reference):
        plan.from_json(other)
    second = drivebay.load_policy(build("GREEDY", "twice", "-DANOTHER_BUILD", "-O2"))
    assert second.digest != first.digest
    with pytest.raises(UserError, match="several are loaded"):
        DRIVE.with_(policy="twice")
    assert with_plugin(second).json() != with_plugin(first).json()


def test_a_test_says_when_a_policy_cannot_have_mattered(build: Build) -> None:
    test = suites.load("quick").tests[0]
    short = test.phases[0].workload.model_copy(update={"duration_s": 0.1})
    phase = test.phases[0].model_copy(update={"workload": short, "before": ()})
    test = test.model_copy(update={"prepare": (), "phases": (phase,)})
    policy = drivebay.load_policy(build("GREEDY"))
    said = {}
    for name, drive in (("own", DRIVE), ("plugin", with_plugin(policy))):
        first = VirtualTarget(drive).run_test(test, seed=1, progress=Progress())[0]
        said[name] = first.conditions.get("warnings")
    assert said["own"] is None
    assert said["plugin"] == [
        "policy greedy: it was never asked for a victim, as garbage collection needed none, "
        "so this decision has changed nothing"
    ]
    device = with_plugin(policy).device()
    with pytest.warns(UserWarning, match="never asked for a victim"):
        device.run(drivebay.Workload(duration_s=0.1))
    with pytest.warns(UserWarning, match="never asked for a victim"):
        device.run_jobs({"a": drivebay.Workload(duration_s=0.1)})
    device.fill()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        device.run(WRITES)


def test_candidates_that_are_all_alike_are_told_as_well() -> None:
    policy = policies.from_functions("alike", version="1", choose_victim=1, place_write=1)

    class Asked:
        victims, writes, paces = (8, 8), (5, 0), None
        levelings = opens = die_reads = retried = None

    told = list(policies.without_effect(policy, Asked()))  # type: ignore[arg-type]
    assert len(told) == 2
    assert "all candidates" in told[0] and "at one frontier" in told[1]
    Asked.victims, Asked.writes = (8, 7), (5, 4)
    assert not list(policies.without_effect(policy, Asked()))  # type: ignore[arg-type]


def test_a_policy_beside_what_it_cannot_decide_is_refused(build: Build) -> None:
    policy = drivebay.load_policy(build("LIFESPAN"))
    with pytest.raises(UserError, match=r"a policy without place_write, .* an SLC cache"):
        drivebay.drive("970-evo-plus-1tb").with_(policy=policy.reference)


@pytest.mark.long
def test_a_new_policy_is_built_by_cargo_and_decides_in_a_review(tmp_path: Path) -> None:
    assert run("new-policy", "my-own", cwd=tmp_path).returncode == 0
    crate = tmp_path / "my-own"
    made = {path.relative_to(crate): path.read_bytes() for path in crate.rglob("*.*")}
    must_fail(run("new-policy", "my-own", cwd=tmp_path), 2, "exists already")
    must_fail(run("new-policy", "../own", cwd=tmp_path), 2, "lower-case letter")
    assert made == {path.relative_to(crate): path.read_bytes() for path in crate.rglob("*.*")}
    assert shutil.which("cargo")
    subprocess.run(["cargo", "build", "--release", "--offline", "-q"], cwd=crate, check=True)
    library = crate / "target/release/libmy_own.so"
    words = ("review", "sm951-ahci-512", "--quick", "--only", "random-read", "--out", "result")
    done = run(*words, "--policy", str(library), cwd=tmp_path)
    assert done.returncode == 0 and "never asked for a victim" in done.stdout
    target = json.loads((tmp_path / "result/manifest.json").read_text())["target"]
    assert target["profile"]["gc"]["plugin"]["value"].startswith("my_own@")
