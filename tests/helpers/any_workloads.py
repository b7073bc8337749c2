"""Workloads that do not say all that a simulation asks."""

from dataclasses import replace

from optimizers import Topology
from optimizers.simulation import Work
from optimizers.workloads import Workload, workload

untimed = Workload(
    name="untimed",
    about="posts, whose work has no known duration",
    topology=Topology.source("posts").then("b", key="place"),
    stream=workload("trending").stream,
)
unpaced = replace(untimed, name="unpaced", work={"b": Work(1e-5)})
