"""Parameters of a buffered linear Toeplitz mechanism, the same for every peer that runs one.

`blt_2048.json` holds the parameters that jax-privacy 2.0.0 finds for the largest error over 2048 steps; `python
peer/blt.py 2048` creates it.
"""

import json
import sys
from pathlib import Path

from case import Unavailable


def parameters(horizon: int) -> tuple[list[float], list[float]]:
    """Decays and scales of the buffers."""
    path = Path(__file__).with_name(f"blt_{horizon}.json")
    if not path.exists():
        raise Unavailable(f"no parameters for {horizon} steps: run PYTHONPATH=. python peer/blt.py {horizon}")
    found = json.loads(path.read_text())
    return found["decays"], found["scales"]


def optimize(horizon: int) -> None:
    from jax_privacy.matrix_factorization import buffered_toeplitz

    found = buffered_toeplitz.optimize(n=horizon)
    text = json.dumps({"decays": found.buf_decay.tolist(), "scales": found.output_scale.tolist()}, indent=1)
    Path(__file__).with_name(f"blt_{horizon}.json").write_text(text + "\n")


if __name__ == "__main__":
    optimize(int(sys.argv[1]))
