"""`python -m isinglass`: the command line."""

import sys

from isinglass.cli import main

sys.exit(main())
