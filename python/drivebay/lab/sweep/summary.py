"""What a sweep has come to, as its report tells it: the effects, and what the sweep was."""

from __future__ import annotations

from drivebay.analysis.effects import Factor, Study, study
from drivebay.lab.sweep.plan import Plan
from drivebay.lab.sweep.spec import Parameter
from drivebay.lab.sweep.store import Store
from drivebay.report.pages.sweep import About

SEEDS_SHOWN = 12


def study_of(plan: Plan, store: Store) -> Study:
    """Main effects and interactions of all runs that have ended, read part by part."""
    return study(factors(plan), store.rows(plan.fingerprint))


def factors(plan: Plan) -> list[Factor]:
    """What was varied: the parameters, and the drive where there are several."""
    found = [_factor(one) for one in plan.spec.parameters]
    names = drives(plan)
    return [*found, Factor("drive", names)] if len(names) > 1 else found


def drives(plan: Plan) -> tuple[str, ...]:
    """Names of the virtual drives, or ids of the real ones."""
    if plan.spec.fleet is not None:
        return tuple(one.id for one in plan.spec.fleet.drives)
    return tuple(profile.name for profile in plan.profiles)


def _factor(one: Parameter) -> Factor:
    if one.values is not None:
        return Factor(one.name, one.values)
    assert one.low is not None and one.high is not None, "checked by the spec"
    return Factor(one.name, low=one.low, high=one.high, log=one.scale == "log")


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
    facts += [(one.name, _words(one)) for one in spec.parameters]
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
    """Of each parameter that had no chance to matter, a sentence."""
    return [
        f"{name}: every figure is the same for all its values, to the last digit; "
        "these tests never ask for it"
        for name in study.without_effect
    ]


def _some(seeds: tuple[int, ...]) -> str:
    more = ", ..." if len(seeds) > SEEDS_SHOWN else ""
    return ", ".join(map(str, seeds[:SEEDS_SHOWN])) + more


def _words(one: Parameter) -> str:
    what = f"load: {one.load}" if one.load else one.change or one.name
    if one.values is not None:
        return f"{what}; {', '.join(_plain(value) for value in one.values)}"
    return (
        f"{what}; from {one.low:g} to {one.high:g}{', in logarithm' if one.scale == 'log' else ''}"
    )


def _plain(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
