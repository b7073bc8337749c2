"""What `penstock strategies` and `penstock workloads` have in common: names with a line each."""

from collections.abc import Mapping


def print_list(abouts: Mapping[str, str]) -> None:
    """Print each name with its line."""
    width = max(map(len, abouts))
    for name, about in abouts.items():
        print(f"{name:{width}}  {about}")
