"""The commands of `ank`, one module per command. `ankaios.cli.tree` declares their arguments and names their functions.

A module is imported only when its command runs.
"""
