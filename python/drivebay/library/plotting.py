"""A run as a picture: three panels over the same seconds. For more, take the arrays."""

from __future__ import annotations

from matplotlib.figure import Figure

from drivebay.library.series import Series

LOG_FROM = 20.0
"""A rate that changes by more than this factor is drawn on a logarithmic axis."""


def plot(series: Series, *, title: str) -> Figure:
    """Rate, latency, and heat with power, over the run."""
    figure = Figure(figsize=(8, 6.5), layout="constrained")
    rate, latency, heat = figure.subplots(3, sharex=True)
    figure.suptitle(title, fontsize=11)
    rate.plot(series.time_s, series.iops, ".", markersize=2, color="tab:blue")
    rate.set_ylabel("I/Os per second")
    moving = series.iops[series.iops > 0]
    if len(moving) and moving.max() > LOG_FROM * moving.min():
        rate.set_yscale("log")
    latency.plot(series.time_s, series.latency_us, ".", markersize=2, label="mean")
    latency.plot(series.time_s, series.latency_us_max, ".", markersize=2, label="largest")
    latency.set_yscale("log")
    latency.set_ylabel("latency, µs")
    latency.legend(markerscale=4, fontsize=8)
    heat.plot(series.time_s, series.temperature_c, color="tab:red")
    heat.set_ylabel("°C", color="tab:red")
    power = heat.twinx()
    power.plot(series.time_s, series.power_w, color="tab:gray", linewidth=0.8)
    power.set_ylabel("W", color="tab:gray")
    heat.set_xlabel("seconds of the drive's time")
    for axes in (rate, latency, heat):
        axes.grid(alpha=0.3)
    return figure
