"""``python -m colla``: the command of this Python's package."""

from colla._command import main

main()
