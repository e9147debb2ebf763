"""Each file is run by itself, `python examples/gemm.py`, or imported from here: `from examples.gemm import gemm`."""

import sys
from pathlib import Path

# run by itself, an example finds the modules beside it; so it does when it is imported
sys.path.append(str(Path(__file__).parent))
