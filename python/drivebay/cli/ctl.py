"""`drivebay ctl`: queries and controls served drives over their control socket."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from drivebay.cli import options
from drivebay.cli.options import argument, flag, option
from drivebay.cli.output import print_json
from drivebay.common import units


def ctl(
    socket: str = argument(),
    command: list[str] = argument(),
    drive: str | None = option(),
    metrics: bool = option(default=False, show_default=False),
    follow: bool = flag("--follow"),
    as_json: options.Json = False,
) -> None:
    """Query and control served drives.

    Examples:
      drivebay serve sm951-ahci-512 --nbd unix:/tmp/drive --control unix:/tmp/ctl
      drivebay ctl /tmp/ctl status                 figures so far
      drivebay ctl /tmp/ctl status --metrics       the same for Prometheus
      drivebay ctl /tmp/ctl now                    clocks of drive and host
      drivebay ctl /tmp/ctl events --follow        power cuts, faults, heat, hosts
      drivebay ctl /tmp/ctl power-cut
      drivebay ctl /tmp/ctl --drive db power-cut   one of several served drives
      drivebay ctl /tmp/ctl power-on               after --after-cut refuse
      drivebay ctl /tmp/ctl ambient 45
      drivebay ctl /tmp/ctl ana-state 1 inaccessible   NVMe/TCP's first portal
      drivebay ctl /tmp/ctl fault '{"kind": "hang", "for_s": 5}'
      drivebay ctl /tmp/ctl no-faults
      drivebay ctl /tmp/ctl resize 200G            NVMe hosts get a notice
      drivebay ctl /tmp/ctl resize 2 64G           namespace 2
      drivebay ctl /tmp/ctl snapshot aged          data, map, wear and heat
      drivebay ctl /tmp/ctl restore aged           drops all connections
      drivebay ctl /tmp/ctl forget aged
      drivebay ctl /tmp/ctl clone aged FOLDER      files for another server

    --metrics prints Prometheus' text format; drivebay serve --metrics serves it
    over HTTP. events --json prints one line per event. For all commands see
    docs/concepts/serving-control.md.

    Parameters
    ----------
    socket : SOCKET
        Control socket (serve --control), unix:PATH or PATH.
    command : COMMAND...
        Command with its arguments; see the examples.
    drive : NAME
        Drive to control, if several are served. status without it shows all drives.
    metrics :
        With status: print the figures in Prometheus' text format.
    follow :
        With events: print new events until the server ends.
    """
    from drivebay.common.errors import UserError
    from drivebay.serving import control

    if follow and command != ["events"]:
        raise UserError("--follow is only for events", f"drivebay ctl {socket} events")
    if command == ["events"]:
        _print_events((control.follow if follow else control.events)(socket, drive), as_json)
        return
    if metrics and command != ["status"]:
        raise UserError("--metrics is only for status", f"drivebay ctl {socket} status")
    if command[0] == "clone" and len(command) == 3:
        command[2] = str(Path(command[2]).absolute())
    if command[0] == "resize" and len(command) in (2, 3):
        command[-1] = str(units.parse_bytes(command[-1], option="resize"))
    if command == ["status"]:
        figures = control.status(socket, drive)
        if metrics:
            from drivebay.serving.metrics import prometheus

            print(prometheus(figures), end="")
        elif as_json:
            print_json(figures[0] if len(figures) == 1 else figures)
        else:
            from drivebay.cli import served

            served.print_figures(figures)
        return
    answer = control.ask(socket, " ".join([*(("drive", drive) if drive else ()), *command]))
    if as_json:
        print_json(answer)
    else:
        print(json.dumps(answer))


def _print_events(events: Iterable[Mapping[str, Any]], as_json: bool) -> None:
    """Prints each event at once, one per line; Ctrl-C ends it."""
    with contextlib.suppress(KeyboardInterrupt):
        for event in events:
            print(json.dumps(event) if as_json else _as_text(event), flush=True)


def _as_text(event: Mapping[str, Any]) -> str:
    """Formats an event: this machine's time, the drive, the kind of event, and its other fields."""
    rest = dict(event)
    at = datetime.fromtimestamp(float(rest.pop("time_s"))).isoformat(" ", "milliseconds")
    head = f"{at}  {rest.pop('drive')}  {rest.pop('event')}"
    rest.pop("number"), rest.pop("drive_s")
    short = {key: f"{v:.4g}" if isinstance(v, float) else v for key, v in rest.items()}
    return "  ".join([head, *(f"{key}={value}" for key, value in short.items())])
