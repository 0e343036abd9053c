"""`python -m ankaios.simulation`, see `scripts/simulate`."""

import sys

from ankaios.simulation.many_seeds import main

if __name__ == "__main__":
    sys.exit(main())
