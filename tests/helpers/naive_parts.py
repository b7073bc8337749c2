"""What the plain simulation keeps: tuples, batches, and the true state of instances."""

import math
from dataclasses import dataclass, field


@dataclass
class Tuple:
    """One tuple on its way to an instance, and there."""

    row: int
    edge: int
    sender: int
    instance: int
    taken: float
    carried: object = None
    conversation: object = None
    arrived: float = math.nan
    done: bool = False
    begun: float | None = None
    spent: float = math.nan
    receiving: float = 0.0


@dataclass
class Pack:
    """Tuples that leave together: for each edge, the same ones for one of its instances."""

    edges: tuple
    sender: int
    instances: tuple
    tuples: list = field(default_factory=list)  # for each tuple, what each edge has of it
    closed: float | None = None
    gone: bool = False
    cause: int = 0


class NaiveTruth:
    def __init__(self, naive, operator):
        self.naive, self.operator, self.row = naive, operator, None

    def there(self, instance):
        return [
            one
            for one in self.naive.there[self.operator]
            if one.instance == instance and not one.done
        ]

    def seconds(self, instance):
        taken = self.naive.seconds(self.operator, self.row)
        return taken * self.naive.rate(self.operator, instance)

    def backlog(self, instance):
        left = 0.0
        for one in self.there(instance):
            if one.begun is None:
                left += one.taken * self.naive.rate(self.operator, instance)
            else:
                left += one.begun + one.spent - self.naive.now
        return left

    def waiting(self, instance):
        return len(self.there(instance))
