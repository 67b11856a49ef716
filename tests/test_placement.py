"""Placement handles from Python: what-ifs, loads with a handle, what went through each; the
suite of them."""

from __future__ import annotations

import runpy
from pathlib import Path

import made_result
import pytest

import drivebay
from drivebay import Trace, Workload, report, results
from drivebay.analysis import Measured, nearest
from drivebay.analysis.measure import measure
from drivebay.analysis.review import review
from drivebay.cli.entry import run
from drivebay.common.errors import UserError
from drivebay.definitions import profiles as catalog
from drivebay.definitions import suites
from drivebay.definitions.scaling import scaled, with_load
from drivebay.targets.base import Progress
from drivebay.targets.virtual.target import VirtualTarget

STUDY = Path(__file__).parent.parent / "examples" / "placement" / "study.py"


def test_what_goes_through_each_handle_is_counted() -> None:
    drive = drivebay.drive("sm951-ahci-512").scaled(1 / 128).with_("fdp=2")
    device = drive.device()
    assert [one.waf for one in device.placement()] == [None] * 3
    half = device.capacity_bytes // 2 // 4096 * 4096
    loads = {
        "cold": Workload(
            pattern="sequential", queue_depth=4, block_bytes=4096, span_bytes=half, bytes=half
        ),
        "hot": Workload(
            queue_depth=4, span_start_bytes=half, span_bytes=half, bytes=3 * half, handle=1
        ),
    }
    device.run_jobs(loads)
    cold, hot, copies = device.placement()
    assert (cold.written_4k, hot.written_4k) == (half // 4096, 3 * half // 4096)
    assert cold.written_4k + hot.written_4k == device.counters().host_pages
    assert cold.copied_4k + hot.copied_4k + copies.copied_4k == device.counters().copied_pages
    assert "handle 1" in loads["hot"].words()
    # Without handles the same drive counts none.
    assert drive.with_("fdp=none").device().placement() == []


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("fdp=many", "must be a number of handles", "fdp=8"),
        ("fdp", "a value is missing", "fdp=8"),
        ("fdp=65", "1 to 64", "fdp=8"),
        ("fdp=8:halfway", "initial or :persistent", "fdp=8:persistent"),
    ],
)
def test_handles_that_cannot_be_are_refused(words: str, said: str, hint: str) -> None:
    with pytest.raises(UserError) as refused:
        drivebay.drive("sm951-ahci-512").with_(words)
    assert said in refused.value.message and hint in refused.value.hint


def test_a_handle_that_the_drive_has_not_is_refused() -> None:
    drive = drivebay.drive("sm951-ahci-512").scaled(1 / 128)
    for device, most in ((drive.device(), 1), (drive.with_("fdp=4").device(), 4)):
        with pytest.raises(UserError, match=f"handle: 4 is not allowed; must be below {most}"):
            device.run(Workload(handle=4))


def test_copies_apart_are_refused_with_one_frontier_and_a_victim_at_a_time() -> None:
    flash = drivebay.drive(STUDY.parent.parent / "figures" / "flash.toml")
    with pytest.raises(UserError, match=r"fdp\.handles: 2 .* gc\.frontiers single"):
        flash.with_(fdp="2:persistent").device()
    flash.with_(fdp="2:initial").device()


def test_a_drive_with_an_slc_cache_places_data_without_it() -> None:
    drive = drivebay.drive("980-pro-1tb").with_("fdp=4:persistent")
    assert "slc_cache" not in drive.raw and len(drive.device().placement()) == 4


def test_placement_gains_where_lifetimes_differ() -> None:
    """The example's study, short: skewed overwrites, apart from what they overwrite and with it."""
    study = runpy.run_path(str(STUDY))
    drive = drivebay.drive("pm9a3-960").scaled(1 / 256)
    got = {
        way: study["amplification"](drive.with_(words) if words else drive, handles, "zipf:1.2", 15)
        for way, (words, handles) in study["WAYS"].items()
    }
    whole = {way: figures[0] for way, figures in got.items()}
    apart = max(whole["initially isolated"], whole["persistently isolated"])
    assert apart < 0.8 * whole["first and third share"] < whole["no placement"]


def test_the_suite_reports_each_handles_write_amplification() -> None:
    def of(name: str, words: tuple[str, ...]) -> Measured:
        test = next(one for one in suites.load("placement").tests if one.id == name)
        assert test.what_if == words
        phases = [
            phase.model_copy(
                update={"workload": phase.workload.model_copy(update={"duration_s": 20.0})}
            )
            for phase in test.phases
        ]
        target = VirtualTarget(scaled(catalog.load("sm951-nvme-512"), 1 / 128))
        target.check((test,))
        short = test.model_copy(update={"phases": tuple(phases)})
        return measure(short, target.run_test(short, seed=1, progress=Progress()))

    mixed = of("three-streams-mixed", ())
    placed = of("three-streams-persistent", ("fdp=3:persistent",))
    assert mixed.main == ("waf_sequential",)
    labels = ("sequential", "random", "skewed")
    assert placed.main == ("waf_sequential", *(f"waf_handle_{label}" for label in labels))
    value = {key: one.value for key, one in placed.figures.items()}
    drive, before = value["waf_sequential"], mixed.figures["waf_sequential"].value
    assert drive is not None and before is not None and 1 <= drive < before
    assert all((value[f"waf_handle_{label}"] or 0) >= 1 for label in labels)


def test_a_page_of_the_suite_shows_write_amplification_first_and_no_rates_of_rivals(
    tmp_path: Path,
) -> None:
    names = ("three-streams-mixed", "three-streams-persistent")
    made = made_result.make(tmp_path / "made", suite="placement", only=names)
    page = tmp_path / "page.html"
    report.write([made], page)
    text = page.read_text()
    assert text.count("Three streams, without placement: write amplification") >= 1
    assert "beside 128 KiB sequential write" not in text
    assert not nearest.loads(review(results.load(made)))


def test_objects_at_random_amplify_as_theory_says() -> None:
    """Of which LMCache's published figure without handles would need 23.4 % of spare flash."""
    lmcache = runpy.run_path(str(STUDY.with_name("lmcache.py")))
    assert lmcache["theory"](0.234) == pytest.approx(lmcache["PUBLISHED"][0], rel=0.01)
    small = drivebay.drive("pm9a3-960").scaled(1 / 256).with_("over_provisioning=23.4%")
    found = lmcache["measured"](small, set(), False)
    assert found == pytest.approx(lmcache["theory"](0.234), rel=0.05)


def test_uniform_overwrites_gain_nothing_and_a_stream_in_sequence_is_collected_too_early() -> None:
    """All is as likely to be overwritten next; what would soon have been overwritten in circles is
    copied before, as the random streams need room."""
    study = runpy.run_path(str(STUDY))
    drive = drivebay.drive("pm9a3-960").scaled(1 / 256)
    ways = {way: study["WAYS"][way] for way in ("no placement", "persistently isolated")}
    mixed, apart = (
        study["amplification"](drive.with_(words) if words else drive, handles, "uniform", 15)
        for words, handles in ways.values()
    )
    assert apart[0] == pytest.approx(mixed[0], rel=0.15)
    assert apart[1] > 1.5


def test_a_noisy_neighbour_raises_what_another_handle_costs() -> None:
    device = drivebay.drive("pm9a3-960").scaled(1 / 128).with_("fdp=2:persistent").device()
    half = device.capacity_bytes // 2 // 4096 * 4096
    index = Workload(span_bytes=half, queue_depth=8, rate_iops=2000, duration_s=30)
    noise = Workload(span_start_bytes=half, span_bytes=half, handle=1, duration_s=30)
    device.fill()

    def waf_of_index(**neighbour: Workload) -> float:
        before = device.placement()[0]
        device.run_jobs({"index": index, **neighbour})
        after = device.placement()[0]
        written = after.written_4k - before.written_4k
        return 1 + (after.copied_4k - before.copied_4k) / written

    device.run(noise.model_copy(update={"bytes": 2 * half}))
    quiet = waf_of_index()
    noisy = waf_of_index(noise=noise)
    assert noisy > 1.2 * quiet


def tenants(name: str) -> dict[str, float]:
    """Figures of a test of the suite with two tenants, on a small drive and for two seconds."""
    test = next(one for one in suites.load("placement").tests if one.id == name)
    short = [with_load(phase, duration_s=2.0) for phase in test.phases]
    test = test.model_copy(update={"phases": tuple(short)})
    target = VirtualTarget(scaled(catalog.load("pm9a3-960"), 1 / 128))
    target.check((test,))
    found = measure(test, target.run_test(test, seed=1, progress=Progress()))
    assert "latency_p99.9_reads-beside" in found.main
    waf = found.phases[-1].step.waf
    assert waf is not None
    known = {key: one.value for key, one in found.figures.items() if one.value is not None}
    return {**known, "waf": waf}


def test_a_reclaim_group_does_not_hear_its_neighbour_and_has_its_own_spare_flash() -> None:
    """The table of docs/concepts/placement.md, at half its size."""
    one, two = tenants("tenants-one-group"), tenants("tenants-two-groups")
    alone, beside = "latency_p99.9_reads-alone", "latency_p99.9_reads-beside"
    assert one[beside] > 4 * one[alone]
    assert two[alone] == pytest.approx(one[alone], rel=0.02)
    assert two[beside] < 1.3 * two[alone]
    assert two["waf"] > 1.5 * one["waf"]


def test_a_page_of_two_tenants_shows_what_the_reader_waits(tmp_path: Path) -> None:
    names = ("tenants-one-group", "tenants-two-groups")
    made = made_result.make(tmp_path / "made", suite="placement", only=names)
    page = tmp_path / "page.html"
    report.write([made], page)
    text = page.read_text()
    assert text.count("Latency p99.9, reads-beside") >= 2
    assert "Two tenants, a reclaim group each" in text
    assert not nearest.loads(review(results.load(made)))


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["fdp.reclaim_groups=2"], "of a drive that has placement handles", "in this order"),
        (["fdp=2", "fdp.reclaim_groups=few"], "must be a number of groups", "fdp=8"),
        (["fdp=2", "fdp.reclaim_groups"], "a value is missing", "fdp.reclaim_groups=2"),
        (["fdp=2", "fdp.reclaim_groups=3"], "a power of two, at most", "possible"),
    ],
)
def test_reclaim_groups_that_cannot_be_are_refused(words: list[str], said: str, hint: str) -> None:
    with pytest.raises(UserError) as refused:
        drivebay.drive("pm9a3-960").with_(*words).device()
    assert said in refused.value.message and hint in refused.value.hint


def test_handles_and_reclaim_groups_may_be_named_in_any_order() -> None:
    words = ["fdp.reclaim_groups=2", "fdp=2", "ambient_c=30"]
    drives = [drivebay.drive("pm9a3-960").with_(*order) for order in (words, words[::-1])]
    assert drives[0].raw == drives[1].raw
    assert drives[0].raw["fdp"]["reclaim_groups"]["value"] == 2


def test_a_reclaim_group_that_the_drive_has_not_is_refused() -> None:
    drive = drivebay.drive("pm9a3-960").scaled(1 / 128)
    placed = drive.with_("fdp=2", "fdp.reclaim_groups=2")
    for device, most in ((drive.device(), 1), (placed.device(), 2)):
        with pytest.raises(UserError, match=f"reclaim_group: 2 is not allowed; .* below {most}"):
            device.run(Workload(reclaim_group=2))
    assert "on handle 1 of reclaim group 1" in Workload(handle=1, reclaim_group=1).words()


TWO_DEVICES = """at_ns,op,offset_bytes,bytes,device,response_ns
0,write,0,65536,0,
1000,write,65536,65536,0,
2000,write,0,131072,1,
3000,read,0,4096,1,
"""


@pytest.mark.filterwarnings("ignore:2 devices of the trace share the drive")
def test_a_traces_devices_may_be_handles(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    path.write_text(TWO_DEVICES)
    drive = drivebay.drive("pm9a3-960").scaled(1 / 128)
    placed = drive.with_("fdp=2").device()
    placed.run(Trace(trace=str(path), handle_by="device"))
    assert [one.written_4k for one in placed.placement()[:2]] == [32, 32]
    mixed = drive.with_("fdp=2").device()
    mixed.run(Trace(trace=str(path)))
    assert [one.written_4k for one in mixed.placement()[:2]] == [64, 0]
    with pytest.raises(UserError, match="request 3: device 1 is not allowed; must be below 1"):
        drive.device().run(Trace(trace=str(path), handle_by="device"))


def test_a_trace_is_replayed_through_handles_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.csv"
    path.write_text(TWO_DEVICES)
    words = ["replay", "sm951-ahci-512", str(path), "--empty", "--handle-by", "device"]
    assert run([*words, "--set", "fdp=2"]) == 0
    assert run(words) == 2
    said = capsys.readouterr().err
    assert "device 1 is not allowed; must be below 1" in said and "hint: --set fdp=8" in said
    assert run(["replay", str(tmp_path / "disk.img"), *words[2:]]) == 2
