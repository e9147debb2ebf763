"""A small model of PyTorch, trained for some steps and then served as a module that needs no PyTorch.

    python examples/torch_model.py [--steps 100]

It learns to tell on which side of a spiral points lie. `torch.compile` compiles forward and backward; the trained
model becomes a graph, a module, and a file.
"""

from __future__ import annotations

import argparse
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import tiledsl


def points(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Points of two spirals, one the mirror image of the other, and which of them each is on."""
    random = np.random.default_rng(seed)
    side = random.integers(0, 2, count)
    turn = random.uniform(0.5, 3.0, count)
    angle = turn * np.pi + side * np.pi
    place = np.stack([turn * np.cos(angle), turn * np.sin(angle)], axis=1) / 3
    return (place + random.normal(0, 0.02, place.shape)).astype(np.float32), side


def trained(steps: int) -> tuple[Any, float]:
    """The model after some steps, and the share of fresh points that it gets right."""
    import torch  # the example is skipped where there is none

    torch.manual_seed(0)
    layers = [torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2)]
    model = torch.nn.Sequential(*layers)
    compiled = torch.compile(model, backend=tiledsl.torch.backend)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    x, side = (torch.from_numpy(array) for array in points(256))
    for step in range(steps):
        loss = torch.nn.functional.cross_entropy(compiled(x), side)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 50 == 0:
            print(f"step {step}: loss {float(loss.detach()):.3f}")
    fresh, answers = points(256, seed=1)
    with torch.no_grad():
        right = (compiled(torch.from_numpy(fresh)).argmax(1).numpy() == answers).mean()
    return model.eval(), float(right)


def served(model: Any) -> float:
    """The share of fresh points that the model gets right as a module that was saved and loaded."""
    import torch

    fresh, answers = points(256, seed=1)
    module = tiledsl.fuse(tiledsl.from_torch(model, torch.from_numpy(fresh))).build("cpu")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "spiral.tiledsl")
        module.save(path)
        return float((tiledsl.load(path)(fresh).argmax(1) == answers).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    steps: int = parser.parse_args().steps
    if find_spec("torch") is None:
        print("PyTorch is not installed: pip install 'tiledsl[torch]'")
        return
    model, share = trained(steps)
    again = served(model)
    print(f"right by torch.compile {share:.1%}, by the saved module {again:.1%}")
    if abs(share - again) > 0.01:
        raise SystemExit("the saved module differs from the model")


if __name__ == "__main__":
    main()
