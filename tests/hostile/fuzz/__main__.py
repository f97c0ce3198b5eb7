"""`python -m tests.hostile.fuzz`: a campaign of mutated files."""

import sys

from tests.hostile.fuzz.campaign import main

if __name__ == "__main__":
    sys.exit(main())
