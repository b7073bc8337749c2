"""Provisioners that do as they are told, for tests of who asks them for nodes."""

from optimizers import Cluster, Node


class Cloud:
    """A provisioner that keeps what it was asked for, and fails while it is told to."""

    def __init__(self):
        self.asked, self.total, self.released, self.fails = 0, None, [], False

    def acquire(self, count, total):
        if self.fails:
            raise OSError("no quota\nleft")
        self.asked, self.total = self.asked + count, total

    def release(self, nodes):
        if self.fails:
            raise ValueError("cannot go")
        self.released += nodes


class Patient(Cloud):
    """A provisioner that can also cancel."""

    def cancel(self, count, total):
        if self.fails:
            raise OSError("line is dead")
        self.asked, self.total = self.asked - count, total


def cluster_of(*names, **options):
    return Cluster(tuple(Node(name) for name in names), **options)
