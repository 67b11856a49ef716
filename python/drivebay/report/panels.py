"""A chart with all that must stand beside it: title, samples, notes on its axes, switches, key.

A panel is made once and shown twice: as HTML in the report of a review, and as data on the Bench,
which lays the panels of several drives over each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from drivebay.report.charts import Chart
from drivebay.report.markup import Child, Html
from drivebay.report.parts import Key, figure, legend, switch, when


@dataclass(frozen=True)
class Note:
    """A sentence of the caption; with `at` it is shown only while a switch stands there."""

    words: str
    at: str = ""


@dataclass(frozen=True)
class Switch:
    """A choice that sets one part of the chart's view; options are (value, words)."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Panel:
    """One chart as a reader meets it.

    `samples` says for each run how many samples there are and how far they spread. `first_slot` is
    how many parts of the view are set by switches that stand elsewhere on the page. Charts that are
    `apart` are not laid over other drives' on the Bench, but stand beside them.
    """

    chart: Chart
    title: str
    samples: tuple[str, ...]
    notes: tuple[Note, ...]
    switches: tuple[Switch, ...] = ()
    key: tuple[Key, ...] = ()
    wide: bool = True
    first_slot: int = 0
    lead: str = ""
    names: tuple[str, ...] = ()
    apart: bool = False

    def html(self) -> Html:
        """The figure for a page."""
        controls: list[Child] = [
            switch(
                f"{self.chart.id}-{one.name}",
                one.label,
                one.options,
                charts=[self.chart.id],
                slot=self.first_slot + place,
            )
            for place, one in enumerate(self.switches)
        ]
        notes: list[Child] = [when(n.at, n.words) if n.at else n.words for n in self.notes]
        return figure(
            self.title,
            self.chart,
            " ".join(filter(None, (self.lead, self.spoken()))),
            *notes,
            wide=self.wide,
            controls=controls,
            key=legend(list(self.key)),
        )

    def spoken(self) -> str:
        """The samples in words, each with its run's name where there are several."""
        if len(self.samples) == 1:
            return f"{self.samples[0]}."
        pairs = zip(self.names, self.samples, strict=True)
        return "; ".join(f"{name}: {words}" for name, words in pairs) + "."

    def encoded(self) -> dict[str, Any]:
        """The panel of a single run, as the Bench reads it."""
        return {
            "id": self.chart.id,
            "title": self.title,
            "lead": self.lead,
            "samples": self.samples[0],
            "notes": [[note.words, note.at] for note in self.notes],
            "switches": [[one.name, one.label, one.options] for one in self.switches],
            "key": [[one.name, one.colour, one.shape, one.meaning] for one in self.key],
            "wide": self.wide,
            "apart": self.apart,
            "chart": self.chart.encoded(),
        }


def panel(
    title: str,
    chart: Chart,
    names: Sequence[str],
    samples: Sequence[str],
    *notes: Note | str,
    lead: str = "",
    switches: Sequence[Switch] = (),
    key: Sequence[Key] = (),
    wide: bool = True,
    first_slot: int = 0,
    apart: bool = False,
) -> Panel:
    """A panel; empty notes are dropped."""
    kept = [Note(one) if isinstance(one, str) else one for one in notes if one]
    return Panel(
        chart,
        title,
        tuple(samples),
        tuple(kept),
        tuple(one for one in switches if len(one.options) > 1),
        tuple(key),
        wide,
        first_slot,
        lead,
        tuple(names),
        apart,
    )
