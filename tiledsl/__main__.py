"""`python -m tiledsl`: the command `tiledsl`."""

import sys

from tiledsl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
