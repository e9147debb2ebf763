"""The documentation site: what is made of docs/, the docstrings, the examples and benchmarks/results.

    pip install -e '.[docs]' && mkdocs serve

`mkdocs.yml` has the navigation; `website/hooks.py` is what MkDocs calls.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
