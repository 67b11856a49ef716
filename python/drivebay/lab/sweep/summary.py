"""Summary of a sweep for its report: the effects, and a description of the sweep."""

from __future__ import annotations

from drivebay.analysis.effects import Factor, Study, study
from drivebay.lab.sweep.plan import Plan
from drivebay.lab.sweep.spec import Parameter
from drivebay.lab.sweep.store import Store
from drivebay.report.pages.sweep import About

SEEDS_SHOWN = 12


def study_of(plan: Plan, store: Store) -> Study:
    """Main effects and interactions of all finished runs, read part by part."""
    return study(factors(plan), store.rows(plan.fingerprint))


def factors(plan: Plan) -> list[Factor]:
    """Varied factors: the parameters, and the drive if there are several."""
    result = [_factor(parameter) for parameter in plan.spec.parameters]
    names = drives(plan)
    return [*result, Factor("drive", names)] if len(names) > 1 else result


def drives(plan: Plan) -> tuple[str, ...]:
    """Names of the virtual drives, or ids of the real ones."""
    if plan.spec.fleet is not None:
        return tuple(drive.id for drive in plan.spec.fleet.drives)
    return tuple(profile.name for profile in plan.profiles)


def _factor(parameter: Parameter) -> Factor:
    if parameter.values is not None:
        return Factor(parameter.name, parameter.values)
    assert parameter.low is not None and parameter.high is not None, "checked by the spec"
    return Factor(
        parameter.name, low=parameter.low, high=parameter.high, log=parameter.scale == "log"
    )


def about(plan: Plan, study: Study, failed: dict[int, str]) -> About:
    """The head of the report."""
    spec, tool = plan.spec, plan.build
    design = {"grid": "full grid", "random": "random points", "latin-hypercube": "Latin hypercube"}
    count = "" if spec.fleet is not None else f", {plan.points:,} points"
    facts = [
        ("Drives", ", ".join(drives(plan))),
        ("Tests", f"{plan.suite}: {', '.join(test.id for test in plan.tests)}"),
        ("Design", f"{design[spec.design.kind]}{count}"),
        ("Seeds", _some(spec.seed_list) + (f", until {spec.until}" if spec.until else "")),
        ("Tool", f"drivebay {tool['version']}, commit {tool['git_commit'] or 'not known'}"),
        ("Fingerprint", plan.fingerprint),
    ]
    facts += [(parameter.name, _described(parameter)) for parameter in spec.parameters]
    facts += [("No effect", sentence) for sentence in no_effect(study)]
    return About(
        title=spec.title or spec.name,
        simulated=spec.fleet is None,
        shortened=spec.quick,
        runs=study.runs + len(failed) if spec.until else plan.runs,
        failed={index: failed[index] for index in sorted(failed)},
        facts=tuple(facts),
    )


def no_effect(study: Study) -> list[str]:
    """A sentence for each parameter without any effect."""
    return [
        f"{name}: every figure is exactly the same for all its values; these tests never use it"
        for name in study.without_effect
    ]


def _some(seeds: tuple[int, ...]) -> str:
    more = ", ..." if len(seeds) > SEEDS_SHOWN else ""
    return ", ".join(map(str, seeds[:SEEDS_SHOWN])) + more


def _described(parameter: Parameter) -> str:
    subject = f"load: {parameter.load}" if parameter.load else parameter.change or parameter.name
    if parameter.values is not None:
        return f"{subject}; {', '.join(_plain(value) for value in parameter.values)}"
    scale = ", in logarithm" if parameter.scale == "log" else ""
    return f"{subject}; from {parameter.low:g} to {parameter.high:g}{scale}"


def _plain(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
