"""Simulation: jobs run tuple by tuple, on clusters of any size, in one process."""

from optimizers.simulation.engine import SimulationEngine
from optimizers.simulation.network import Network
from optimizers.simulation.result import Simulated
from optimizers.simulation.service import Work
from optimizers.simulation.stages.micro_batches import MicroBatches
from optimizers.simulation.stream import Stream

__all__ = ["MicroBatches", "Network", "Simulated", "SimulationEngine", "Stream", "Work"]
