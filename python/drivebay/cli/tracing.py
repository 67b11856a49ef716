"""What `drivebay trace` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivebay import traces
from drivebay.cli.display import LINE_EVERY_S, say
from drivebay.cli.show import number, table
from drivebay.common import units


def info(file: Path, *, from_: str | None, as_json: bool, png: Path | None, force: bool) -> None:
    """The statistics of a trace, and its picture."""
    described = traces.info(file, from_=from_)
    if png is not None:
        traces.picture(file, described, png, from_=from_, force=force)
    _notes(described.summary)
    _describe(described, as_json=as_json)


def synth(
    name: str,
    out: Path | None,
    *,
    scale: float,
    seed: int,
    to: str | None,
    as_json: bool,
    png: Path | None,
    force: bool,
) -> None:
    """A synthesized trace: written, or described."""
    source = traces.what(name, scale=scale, seed=seed)
    if out is not None:
        requests = traces.synth(name, out, scale=scale, seed=seed, to=to, force=force)
        say(f"synthesized: {requests:,} requests of {name}, seed {seed}")
    if out is None or png is not None or as_json:
        described = traces.synth_info(name, scale=scale, seed=seed)
        if png is not None:
            traces.synth_picture(name, described, png, source=source, force=force)
        if out is None or as_json:
            _describe(described, as_json=as_json)
            return
    print(out)


def _describe(described: traces.Described, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(described.figures, indent=1))
        return
    table(("figure", "value"), _rows(described), right=(1,))
    for key, title in (("size_share", "size"), ("queue_depth_share", "queue depth")):
        if (shares := described.figures[key]) is not None:
            print()
            cells = [(bucket, f"{share:.1%}") for bucket, share in shares.items()]
            table((title, "share of reads and writes"), cells, right=(1,))


def convert(source: Path, out: Path, *, from_: str | None, to: str | None, force: bool) -> None:
    """A trace in another format; prints the file's name."""
    summary = traces.convert(source, out, from_=from_, to=to, force=force)
    _notes(summary)
    say(f"converted: {summary.requests:,} requests, read as {summary.format}")
    print(out)


def record(device: str, *, seconds: float, out: Path | None, to: str | None, force: bool) -> None:
    """A recording of a device's I/Os; prints the file's name."""
    place = out or Path(f"{Path(device).name}.csv")
    if out is None:
        to = to or "csv"
    last = 0.0

    def tell(passed: float, text_bytes: int) -> None:
        nonlocal last
        if passed - last >= LINE_EVERY_S:
            last = passed
            left = max(0.0, seconds - passed)
            say(f"recording: {left:.0f} s left, {units.si_bytes(text_bytes)} of events")

    say(f"recording {device} for {seconds:g} s; Ctrl-C ends it early")
    done = traces.record(device, place, seconds=seconds, force=force, to=to, tell=tell)
    _notes(done.summary)
    if done.lost_events:
        say(f"note: {done.lost_events:,} events were lost: they came faster than they were read")
    say(f"recorded: {done.summary.requests:,} requests in {done.seconds:.1f} s")
    print(place)


def _notes(summary: traces.Summary) -> None:
    for note in summary.notes:
        say(f"note: {note}")


def _rows(described: traces.Described) -> list[tuple[str, str]]:
    figures: Mapping[str, Any] = described.figures

    def known(key: str, unit: str = "", share: bool = False) -> str:
        value = figures[key]
        if value is None:
            return "not known"
        return f"{value:.1%}" if share else f"{number(value)}{unit}"

    footprint = figures["footprint_bytes"]
    return [
        ("format", described.summary.format),
        ("reads", f"{figures['reads']:,}"),
        ("writes", f"{figures['writes']:,}"),
        ("read", units.si_bytes(figures["read_bytes"])),
        ("written", units.si_bytes(figures["written_bytes"])),
        ("footprint", "not known" if footprint is None else units.si_bytes(footprint)),
        ("overwrites", known("overwrite_share", share=True)),
        ("sequential", known("sequential_share", share=True)),
        ("mean queue depth", known("queue_depth_mean")),
        ("duration", known("duration_s", " s")),
        ("idle", known("idle_s", " s")),
    ]
