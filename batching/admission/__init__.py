"""When a batch begins and how many rows it has: decided after each batch, by its report."""

from batching.admission.controller import Admission, Controller, Report
from batching.admission.fixed_point import FixedPoint
from batching.admission.isotonic import Isotonic
from batching.admission.levels import Levels
from batching.admission.pid import PidRate

__all__ = ["Admission", "Controller", "FixedPoint", "Isotonic", "Levels", "PidRate", "Report"]
