"""The command `penstock compare` on a cluster: ``python tests/cluster/comparing.py``.

A standalone cluster of two workers on loopback addresses. It fails unless the comparison is right
and its JSON says that it was run on these two hosts.
"""

import json
import sys
import tempfile
from pathlib import Path

from standalone import standalone

from optimizers.cli import main as penstock

WORKERS = 2


def main() -> int:
    """Compare, and return 1 if the comparison failed or was not run on the workers."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with standalone(WORKERS, folder=folder / "cluster") as url:
            file, checkpoint = folder / "found.json", str(folder / "compared")
            where = ["--master", url, "--checkpoint", checkpoint, "--json", str(file)]
            code = penstock(["compare", "--batches", "3", "--scale", "0.05", *where])
        found = json.loads(file.read_text("utf-8"))
    print(f"hosts: {found['hosts']}, nodes: {found['nodes']}, imagined: {found['imagined']}")
    expected = [f"127.0.0.{number + 2}" for number in range(WORKERS)]
    is_right = (found["hosts"], found["nodes"], found["imagined"]) == (expected, WORKERS, False)
    return code or int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
