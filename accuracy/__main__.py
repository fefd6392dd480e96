"""`python -m accuracy`, as accuracy/run calls it."""

from accuracy.command import main

main()
