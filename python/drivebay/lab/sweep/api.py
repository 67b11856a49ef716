"""Python interface to sweeps: what `drivebay sweep` does, with the runs as a table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from drivebay.lab.sweep.plan import Plan
    from drivebay.lab.sweep.store import Store


@dataclass(frozen=True)
class Sweep:
    """A sweep that has ended. `failed` maps numbers of runs to their errors."""

    plan: Plan
    store: Store
    failed: Mapping[int, str]

    def table(self) -> pa.Table:
        """Returns a row for each run: parameters, figures, cost, and the build that made it."""
        import pyarrow as pa

        return pa.Table.from_pylist([row for row, _ in self.store.rows(self.plan.fingerprint)])


def run(
    what: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    scheduler: str | None = None,
    trust_network: bool = False,
    jobs: int | None = None,
    resume: bool = False,
) -> Sweep:
    """Runs a sweep on this machine's processors or a Dask cluster.

    Parameters
    ----------
    what : the path of a sweep's file, or its content as nested dicts (docs/concepts/sweeps.md).
    out : the folder of the results, or any URL that fsspec opens; by default
        drivebay-sweeps/NAME.
    scheduler : a Dask scheduler's address.
    trust_network : connect without TLS to a scheduler that is not on loopback. Whoever reaches it,
        one of its workers, or the connection can run programs as this user:
        docs/concepts/sweeps.md.
    jobs : number of parallel runs; by default the number of processors.
    resume : continue the sweep in `out`.

    Raises
    ------
    UserError
        If the sweep is not possible, `out` holds something else, or the scheduler is not on
        loopback, has no TLS, and the network is not trusted.
    EnvironmentProblem
        If a worker is another build, or no scheduler answers.
    Interrupted
        On Ctrl-C; finished runs are kept.
    """
    from drivebay.lab.sweep import engine, plan, spec
    from drivebay.lab.sweep.store import Store

    given, where = (
        (spec.parse(dict(what), where="sweep"), "sweep")
        if isinstance(what, Mapping)
        else (spec.load(Path(what)), str(what))
    )
    made = plan.make(given, where=where)
    store = Store(str(out or Path("drivebay-sweeps") / given.name))
    failed = engine.run(
        made,
        store,
        _Quiet(),
        scheduler=scheduler,
        trust_network=trust_network,
        jobs=jobs,
        resume=resume,
    )
    return Sweep(made, store, failed)


class _Quiet:
    """Reports only errors and warnings."""

    def begin(self, runs: int, done: int, capacity: int) -> None:
        pass

    def ended(self, index: int, error: str | None) -> None:
        if error is not None:
            warnings.warn(f"run {index} failed: {error}", stacklevel=2)

    def warn(self, message: str) -> None:
        warnings.warn(message, stacklevel=2)
