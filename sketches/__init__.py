"""What is known of a stream: small summaries of its keys.

They are filled from whole arrays at a time, add up (``a | b``), travel as versioned bytes, and
give the same answers in every process.

>>> from sketches import CountMin
>>> counts = CountMin.for_error(epsilon=0.01, delta=0.01)
>>> counts.update(["tea", "coffee", "tea"])
>>> counts.estimate(["tea", "milk"])
array([2., 0.])
"""

from sketches.cost_sketch import CostSketch
from sketches.count_min import CountMin
from sketches.keys import Pairs
from sketches.space_saving import HeavyHitter, SpaceSaving

__all__ = ["CostSketch", "CountMin", "HeavyHitter", "Pairs", "SpaceSaving"]
