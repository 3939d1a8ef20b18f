"""A small task for tests: 400 examples of three kinds, and a network for them. Needs PyTorch."""

from typing import Any

import evertally as et
import numpy as np
import torch

STEPS, EXAMPLES, FEATURES, CLASSES = 24, 400, 6, 3


def key(seed: int = 3) -> et.SecretKey:
    return et.SecretKey.insecure_from_test_seed(et.TestSeed(seed))


def data() -> Any:
    rng = np.random.default_rng(5)
    inputs = rng.standard_normal((EXAMPLES, FEATURES), dtype=np.float32)
    targets = (inputs @ rng.standard_normal((FEATURES, CLASSES), dtype=np.float32)).argmax(axis=1)
    return torch.utils.data.TensorDataset(torch.from_numpy(inputs), torch.from_numpy(targets))


def network() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, 5), torch.nn.Tanh(), torch.nn.Linear(5, CLASSES))
