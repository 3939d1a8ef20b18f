"""The nodes that enter and leave from one step to the next: shared by the peers that sum nodes of a tree.

Both trees are written for this benchmark from the papers. A node corresponds to a one bit of the number of the step
(the step itself, or the leaf number of the smooth mechanism). From one number to the next the high one bits stay; the
low ones are replaced. So the nodes form a stack: pop some, push some.
"""

from collections.abc import Iterator
from math import comb


def binary_steps(horizon: int) -> Iterator[tuple[int, int]]:
    """For each step of the binary mechanism, how many nodes leave and how many enter (always one)."""
    for step in range(1, horizon + 1):
        yield (step & -step).bit_length() - 1, 1


def most_live(steps: Iterator[tuple[int, int]]) -> int:
    """The largest number of nodes held at once."""
    live = most = 0
    for leaving, entering in steps:
        live += entering - leaving
        most = max(most, live)
    return most


def smooth_height(horizon: int) -> int:
    """The smallest even height with enough balanced leaves (Andersson and Pagh, section 3.2)."""
    height = 2
    while comb(height, height // 2) < horizon + 1:
        height += 2
    return height


def smooth_steps(horizon: int) -> Iterator[tuple[int, int]]:
    """For each step of the smooth binary mechanism, how many nodes leave and how many enter.

    The leaf of the first datum is the smallest balanced number; step t reads the leaf after its own.
    """
    ones = smooth_height(horizon) // 2
    leaf = (1 << ones) - 1
    held = 0
    for _ in range(horizon):
        after = next_with_equal_ones(leaf)
        changed = (1 << (leaf ^ after).bit_length()) - 1
        entering = (after & changed).bit_count() if held else ones
        yield (entering if held else 0), entering
        held = ones
        leaf = after


STEPS = {"binary": binary_steps, "smooth": smooth_steps}


def next_with_equal_ones(number: int) -> int:
    """The next larger number with the same number of one bits."""
    lowest = number & -number
    carried = number + lowest
    return carried | ((number ^ carried) // lowest) >> 2
