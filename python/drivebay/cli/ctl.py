"""`drivebay ctl`: what a served drive is asked and told while it runs, over its control socket."""

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

app = options.Verb()


@app.command(
    epilog="""\b
Examples:
  drivebay serve sm951-ahci-512 --nbd unix:/tmp/drive --control unix:/tmp/ctl
  drivebay ctl /tmp/ctl status                 its figures so far
  drivebay ctl /tmp/ctl status --metrics       the same for Prometheus
  drivebay ctl /tmp/ctl now                    its clock beside this host's
  drivebay ctl /tmp/ctl events --follow        power cuts, faults, heat, hosts
  drivebay ctl /tmp/ctl power-cut
  drivebay ctl /tmp/ctl --drive db power-cut   where several drives are served
  drivebay ctl /tmp/ctl power-on               after --after-cut refuse
  drivebay ctl /tmp/ctl ambient 45
  drivebay ctl /tmp/ctl fault '{"kind": "hang", "for_s": 5}'
  drivebay ctl /tmp/ctl no-faults
  drivebay ctl /tmp/ctl resize 200G            hosts are told over NVMe
  drivebay ctl /tmp/ctl resize 2 64G           where it has several namespaces
  drivebay ctl /tmp/ctl snapshot aged          data, map, wear and heat
  drivebay ctl /tmp/ctl restore aged           connections drop
  drivebay ctl /tmp/ctl forget aged
  drivebay ctl /tmp/ctl clone aged FOLDER      for another server

\b
--metrics writes Prometheus' text format; drivebay serve --metrics serves the
same over HTTP. events --json writes a line for each. What the commands do:
docs/concepts/serving.md."""
)
def ctl(
    socket: str = argument("SOCKET", "What --control was given, unix:PATH or PATH."),
    command: list[str] = argument("COMMAND...", "What is asked or told."),
    drive: str | None = option(
        "NAME", "Of several drives, the one that is meant; status without it shows all."
    ),
    metrics: bool = option(
        None,
        "Write the figures of status in Prometheus' text format.",
        default=False,
        show_default=False,
    ),
    follow: bool = flag("--follow", "With events: go on as they happen, until the server ends."),
    as_json: options.Json = False,
) -> None:
    """Query and control served drives."""
    from drivebay.common.errors import UserError
    from drivebay.serving import control

    if follow and command != ["events"]:
        raise UserError("--follow goes with events alone", f"drivebay ctl {socket} events")
    if command == ["events"]:
        _print_events((control.follow if follow else control.events)(socket, drive), as_json)
        return
    if metrics and command != ["status"]:
        raise UserError("--metrics goes with status alone", f"drivebay ctl {socket} status")
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
    found = control.ask(socket, " ".join([*(("drive", drive) if drive else ()), *command]))
    if as_json:
        print_json(found)
    else:
        print(json.dumps(found))


def _print_events(found: Iterable[Mapping[str, Any]], as_json: bool) -> None:
    """A line for each, at once; Ctrl-C ends it."""
    with contextlib.suppress(KeyboardInterrupt):
        for event in found:
            print(json.dumps(event) if as_json else _in_words(event), flush=True)


def _in_words(event: Mapping[str, Any]) -> str:
    """The time on this machine's clock, the drive, what has happened, and the rest of it."""
    own = dict(event)
    at = datetime.fromtimestamp(float(own.pop("time_s"))).isoformat(" ", "milliseconds")
    head = f"{at}  {own.pop('drive')}  {own.pop('event')}"
    own.pop("number"), own.pop("drive_s")
    return "  ".join([head, *(f"{key}={_short(value)}" for key, value in own.items())])


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
