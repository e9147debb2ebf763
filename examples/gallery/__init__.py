"""Kernels of the field, a file for each: `python examples/gallery/top_k.py`, or all: `python -m examples.gallery`."""

import sys
from pathlib import Path

# as in `examples/`: a file that is run by itself finds the modules beside it, and so it does when it is imported
sys.path.append(str(Path(__file__).parent))
