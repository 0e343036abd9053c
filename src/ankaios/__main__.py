"""`python -m ankaios` is `ank`."""

from ankaios.cli.__main__ import main

main()
