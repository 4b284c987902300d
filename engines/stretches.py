"""Integer arithmetic of steps advanced together: each costs a fixed amount more than the one before it."""

from math import isqrt


def duration_ps(steps: int, first_cost_ps: int, slope_ps: int) -> int:
    """How long so many steps take together."""
    return first_cost_ps * steps + slope_ps * (steps * (steps - 1) // 2)


def steps_before(time_ps: int, first_cost_ps: int, slope_ps: int, most_steps: int) -> int:
    """How many of at most `most_steps` steps start before `time_ps` has passed, at least 1.

    Exact: the root of the quadratic is taken in integers and corrected by comparison.
    """
    if most_steps <= 1 or duration_ps(most_steps - 1, first_cost_ps, slope_ps) < time_ps:
        return most_steps
    if not slope_ps:
        return max(1, -(-time_ps // first_cost_ps))
    linear = 2 * first_cost_ps - slope_ps
    steps = max(1, (isqrt(linear * linear + 8 * slope_ps * max(time_ps, 0)) - linear) // (2 * slope_ps))
    while steps > 1 and duration_ps(steps - 1, first_cost_ps, slope_ps) >= time_ps:
        steps -= 1
    while duration_ps(steps, first_cost_ps, slope_ps) < time_ps:
        steps += 1
    return steps
