"""`python -m glassformer`: the command line."""

from glassformer.cli import main

main()
