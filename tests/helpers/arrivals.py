"""Rows that come at rates that change, and a job that processes them in batches."""

import itertools
import math

import numpy as np

from batching.admission import BatchReport


def step(time, low, high):
    return high if time >= 40 else low


def ramp(time, low, high):
    return low + (high - low) * min(1.0, time / 80)


def spike(time, low, high):
    return high if 40 <= time < 44 else low


def sine(time, low, high):
    return (low + high) / 2 - (high - low) / 2 * math.cos(2 * math.pi * time / 60)


def steady(time, low, high):
    return high


SHAPES = (step, ramp, spike, sine, steady)


def between(shape, low, high, begin, end):
    """The rows that come between two times: what a fine sum of the rate says."""
    part = (end - begin) / 8
    return sum(shape(begin + (place + 0.5) * part, low, high) for place in range(8)) * part


def run(controller, rows_between, seconds_of, *, until, noise=0.0, seed=1):
    """Run batches until a time, and return what each found and left: a list of tuples.

    Each is (time, backlog when it began, rows, seconds, the controller after it).
    """
    drawn = np.random.default_rng(seed)
    time = backlog = 0.0
    begun, planned = 0.0, 0.0
    found = []
    while time < until:
        admission = controller.admission
        planned = begun + admission.period
        begin = max(time, planned)
        arrived = rows_between(begun, begin) * drawn.uniform(1 - noise, 1 + noise)
        backlog += arrived
        rows = min(backlog, admission.rows)
        seconds = seconds_of(rows) * drawn.uniform(1 - noise, 1 + noise)
        report = BatchReport(rows, seconds, arrived, begin - begun, begin - planned)
        controller = controller.after(report)
        found.append((begin, backlog, rows, seconds, controller))
        backlog -= rows
        begun, time = begin, begin + seconds
    return found


def changes(states):
    """How often the period was another than before."""
    periods = [state.admission.period for *_, state in states]
    return sum(first != second for first, second in itertools.pairwise(periods))
