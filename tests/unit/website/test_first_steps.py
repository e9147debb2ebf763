"""The files that docs/start.md makes."""

from __future__ import annotations

import pytest

from website.first_steps import PAGE, steps

SMALL = """
```bash
python3 -m venv .venv
pip install .
```
Save this as `a.py`:

```python
x = 1
```
```bash
python a.py
```
```python
y = x
```
"""


def test_files() -> None:
    assert steps(SMALL, "/w/t.whl", "python3.9") == {
        "a.py": "x = 1\n",
        "whole_a.py": "x = 1\ny = x\n",
        "steps.sh": "set -eu\n'python3.9' -m venv .venv\npip install --quiet '/w/t.whl'\n"
        "python a.py\npython whole_a.py\n",
    }


def test_the_page() -> None:
    files = steps(PAGE.read_text(encoding="utf-8"), "t.whl", "python3")
    lines = files["steps.sh"].splitlines()
    assert lines.index("python first.py") > lines.index("tiledsl doctor") > lines.index("pip install --quiet 't.whl'")
    assert sum(line.startswith("tiledsl ") for line in lines) > 4
    assert files["whole_first.py"].startswith(files["first.py"])


def test_a_page_that_installs_nothing() -> None:
    with pytest.raises(AssertionError, match="installs the repository once"):
        steps(SMALL.replace("pip install .", "true"), "t.whl", "python3")
