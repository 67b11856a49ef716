"""The command `serve`: runs the server, says where it is, shows how it went."""

from __future__ import annotations

import contextlib
import json
import re
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

from drivebay import serving
from drivebay.cli import show
from drivebay.cli.display import say
from drivebay.common import signals, units
from drivebay.common.errors import EXIT_DONE, UserError
from drivebay.definitions.profiles import Profile

SIZES = {"": 1, "MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


def size_bytes(text: str) -> int:
    """Bytes of "4GiB", "500MB" or "1048576".

    >>> size_bytes("4GiB")
    4294967296
    """
    found = re.fullmatch(r"(\d{1,12})\s*(|MB|GB|MiB|GiB)", text.strip())
    if found is None or int(found[1]) == 0:
        raise UserError(f"--memory {text} is not a size", "--memory 4GiB")
    return int(found[1]) * SIZES[found[2]]


def serve(profile: Profile, options: serving.Options, *, seed: int, as_json: bool) -> int:
    """Serves until interrupted, and returns the exit code."""
    server = serving.Server(profile, options, seed=seed)
    say(f"drive   {profile.title}: {units.si_bytes(profile.capacity_bytes)}")
    say(f"data    {options.data or 'in memory; gone at the end'}")
    for address in server.addresses:
        is_nvme = address.startswith(("nvme-tcp:", "vfio-user:"))
        say(address if is_nvme else f"nbd     {address}")
    if options.control is not None:
        say(f"control {options.control}")
    say("Ctrl-C ends; kill -USR1 shows the figures so far")
    with signals.heard(server.stop), _shown_on_usr1(server):
        figures = server.run()
    if as_json:
        print(json.dumps(figures, indent=1))
    else:
        show.table(("figure", "value"), rows(figures), right=(1,))
    return EXIT_DONE


def rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """The figures as people read them."""
    lateness = figures["lateness"]
    lines = [
        ("served for", f"{figures['elapsed_s']:.1f} s"),
        ("requests", f"{figures['requests']:,}"),
        ("read", units.si_bytes(figures["bytes_read"])),
        ("written", units.si_bytes(figures["bytes_written"])),
        ("write amplification", f"{figures['waf']:.2f}"),
        ("temperature", f"{figures['temperature_c']:.1f} °C"),
        ("throttle stage", str(figures["throttle_stage"])),
        ("power cuts", str(figures["power_cuts"])),
    ]
    if lateness["answers"]:
        late, answers = lateness["late"], lateness["answers"]
        lines += [
            ("server late, 50th percentile", f"{lateness['us_p50']:.1f} us"),
            ("server late, 99th percentile", f"{lateness['us_p99']:.1f} us"),
            ("server late, 99.9th percentile", f"{lateness['us_p999']:.1f} us"),
            (
                f"not served in time (over {lateness['late_from_us']:.0f} us)",
                f"{late:,} ({late / answers:.2%})",
            ),
        ]
    return lines


@contextlib.contextmanager
def _shown_on_usr1(server: serving.Server) -> Iterator[None]:
    """Inside, SIGUSR1 prints the figures so far to stderr."""

    def tell(_number: int, _frame: FrameType | None) -> None:
        figures = server.status()
        if figures is not None:
            say(json.dumps(figures))

    before = signal.signal(signal.SIGUSR1, tell)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
