"""When a batch begins and how many rows it has: decided after each batch, by its report."""

from batching.admission.controller import BatchReport, Controller, NextBatch
from batching.admission.fixed_point import FixedPoint
from batching.admission.isotonic import Isotonic
from batching.admission.levels import Levels
from batching.admission.pid import PidRate

__all__ = ["BatchReport", "Controller", "FixedPoint", "Isotonic", "Levels", "NextBatch", "PidRate"]
