"""What the data tell of each parameter, and which of them they cannot tell apart.

Source: the usual linear analysis at the optimum. With S the derivatives of the residuals (each in
its figure's scale) by the coordinates (each in its range), the values' covariance is
(S'S + 12 I)^-1: 12 I is what the range alone tells, a uniform distribution over it. Correlations
near one name what only moves together; singular values say how many combinations the data fix.
Leaves out: curvature. Far from the optimum other pairs may be told apart, or fewer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from drivebay.lab.calibrate.parameters import Parameter

Floats = npt.NDArray[np.float64]

CORRELATED = 0.95
"""From this correlation on two parameters are not told apart."""
PRIOR = 12.0
"""One over the variance of a uniform distribution from 0 to 1."""
OPEN = 0.5
"""A value is not determined if the data narrow its range by less than half."""


@dataclass(frozen=True)
class Identifiability:
    """What the fit's data tell; arrays are in the order of `parameters`.

    `sensitivity`, shape (figures, parameters): percent by which a figure changes per percent of the
    parameter. `singular_values`, shape (parameters,), largest first, of the derivatives in scales
    per range; `directions`, shape (parameters, parameters), one row each. `correlation`, shape
    (parameters, parameters). `sd`, shape (parameters,): standard errors, in the parameters' units.
    `covariance`, shape (parameters, parameters), is that of their coordinates.
    `determined` counts the combinations that the data narrow to under half of their range.
    """

    parameters: tuple[str, ...]
    figures: tuple[str, ...]
    sensitivity: Floats
    singular_values: Floats
    directions: Floats
    correlation: Floats
    sd: Floats
    open_share: Floats
    determined: int
    sentences: tuple[str, ...]
    covariance: Floats

    def relative_sd(self, derivatives: Floats, scales: Sequence[float]) -> Floats:
        """Standard deviations of figures' logarithms, shape (figures,), as far as the data leave
        the parameters open.

        Parameters
        ----------
        derivatives, scales : of the figures, as for `identifiability`.
        """
        variance = np.einsum("ij,jk,ik->i", derivatives, self.covariance, derivatives)
        return np.asarray(np.sqrt(variance) * np.asarray(scales))


def identifiability(
    parameters: Sequence[Parameter],
    values: Sequence[float],
    figures: Sequence[str],
    scales: Sequence[float],
    derivatives: Floats,
) -> Identifiability:
    """What derivatives of shape (figures, parameters), in scales per range, tell."""
    count = len(parameters)
    info = derivatives.T @ derivatives
    covariance = np.asarray(np.linalg.inv(info + PRIOR * np.eye(count)), dtype=np.float64)
    sd = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(sd, sd)
    _, singular, rows = np.linalg.svd(derivatives, full_matrices=True)
    singular = np.concatenate([singular, np.zeros(count - len(singular))])
    widths = np.array(
        [one.width(one.coordinate(value)) for one, value in zip(parameters, values, strict=True)]
    )
    relative = np.array([abs(value) or 1.0 for value in values]) / widths
    # Residuals are errors over scales, coordinates shares of a range: back to percent by percent.
    sensitivity = derivatives * np.asarray(scales)[:, None] * relative[None, :]
    open_share = sd * math.sqrt(PRIOR)
    determined = int(np.sum(np.sqrt(PRIOR / (singular**2 + PRIOR)) < OPEN))
    names = tuple(one.name for one in parameters)
    return Identifiability(
        names,
        tuple(figures),
        sensitivity,
        singular,
        rows,
        correlation,
        sd * widths,
        open_share,
        determined,
        tuple(_sentences(names, correlation, open_share, derivatives, determined)),
        covariance,
    )


def _sentences(
    names: Sequence[str],
    correlation: Floats,
    open_share: Floats,
    derivatives: Floats,
    determined: int,
) -> list[str]:
    """In words: how many combinations are known, what is tied to what, and what stays open."""
    count = len(names)
    if not count:
        return []
    all_of = "all" if determined == count else f"{determined} of"
    said = [
        f"The data determine {all_of} {count} independent combinations of the {count} parameters."
        if count > 1
        else f"The data {'determine' if determined else 'do not determine'} {names[0]}."
    ]
    insensitive = {
        names[i] for i in range(count) if float(np.abs(derivatives[:, i]).max(initial=0.0)) < 0.1
    }
    for i in range(count):
        for j in range(i + 1, count):
            r = float(correlation[i, j])
            if abs(r) > CORRELATED and not insensitive & {names[i], names[j]}:
                what = "their sum or product" if r < 0 else "their difference or ratio"
                said.append(
                    f"{names[i]} and {names[j]} cannot be told apart (r = {r:+.3f}): the data fix "
                    f"little more than {what}."
                )
    for i, name in enumerate(names):
        if name in insensitive:
            said.append(f"No figure changes with {name} around the value found: it stays open.")
        elif open_share[i] > OPEN:
            said.append(
                f"{name} stays open over {100 * min(1.0, float(open_share[i])):.0f} % of its range."
            )
    return said
