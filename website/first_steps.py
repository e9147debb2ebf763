"""What docs/start.md says to do, as files: `python -m website.first_steps FOLDER WHEEL PYTHON`.

Writes the Python that is to be saved, and `steps.sh` with the commands in their order, where a wheel is installed in
place of the repository. `.ci/run` runs them in a folder of their own, with each Python that there is.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from website import ROOT

PAGE = ROOT / "docs" / "start.md"
INSTALL = "pip install ."


def steps(page: str, wheel: str, python: str) -> dict[str, str]:
    """The files by name: what is to be saved, the same with the Python below it, the commands. `python` makes the
    environment."""
    found = re.search(r"Save this as `(\w+\.py)`", page)
    blocks = re.findall(r"^```(bash|python)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    commands = [text for kind, text in blocks if kind == "bash"]
    assert found, "the page has a file to save"
    assert sum(text.splitlines().count(INSTALL) for text in commands) == 1, "the page installs the repository once"
    script = "".join(commands).replace(f"{INSTALL}\n", f"pip install --quiet '{wheel}'\n")
    script = script.replace("python3 -m venv", f"'{python}' -m venv")
    first = next(text for kind, text in blocks if kind == "python")
    whole = "".join(text for kind, text in blocks if kind == "python")
    return {found[1]: first, f"whole_{found[1]}": whole, "steps.sh": f"set -eu\n{script}python whole_{found[1]}\n"}


def main() -> None:
    """Writes the files into a folder that is there."""
    folder, wheel, python = sys.argv[1:]
    for name, text in steps(PAGE.read_text(encoding="utf-8"), wheel, python).items():
        (Path(folder) / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
