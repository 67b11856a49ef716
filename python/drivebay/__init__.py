"""drivebay: an SSD review lab for real drives and virtual ones.

The public names below are loaded when first used, so that `import drivebay` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drivebay.common.errors import DrivebayError as DrivebayError
    from drivebay.common.errors import EnvironmentProblem as EnvironmentProblem
    from drivebay.common.errors import UserError as UserError
    from drivebay.definitions.policies import load as load_policy
    from drivebay.definitions.suites import load as load_suite
    from drivebay.library import *
    from drivebay.results import load as load_result

    from . import review as review
    from .definitions import policies as policies
    from .lab import fit as calibrate
    from .lab import sweep as sweep

    __all__ = ["calibrate", "load_policy", "load_result", "load_suite"]

_LIBRARY = (
    "Age Array Device Drive Inside Latencies Life Replicates Result Samples Series Trace Workload "
    "age drive replicates run"
)
_ERRORS = "DrivebayError EnvironmentProblem UserError"
# In which module each public name lies, and as what; None is the module itself.
_HOMES: dict[str, tuple[str, str | None]] = {
    **{name: ("drivebay.library", name) for name in _LIBRARY.split()},
    **{name: ("drivebay.common.errors", name) for name in _ERRORS.split()},
    "calibrate": ("drivebay.lab.fit", None),
    "load_policy": ("drivebay.definitions.policies", "load"),
    "load_result": ("drivebay.results", "load"),
    "load_suite": ("drivebay.definitions.suites", "load"),
    "policies": ("drivebay.definitions.policies", None),
    "review": ("drivebay.review", None),
    "sweep": ("drivebay.lab.sweep", None),
}
__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from drivebay.common.provenance import tool_version

        return tool_version()
    if name not in _HOMES:
        from drivebay.common.errors import did_you_mean

        hint = did_you_mean(name, __all__) or f"it has {', '.join(__all__)}"
        raise AttributeError(f"drivebay has no '{name}'; {hint.rstrip('; ')}")
    module, attribute = _HOMES[name]
    home = import_module(module)
    return home if attribute is None else getattr(home, attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
