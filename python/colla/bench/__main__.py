import sys

from colla.bench.command import main

# Ranks import this again to find what they run, and must not begin anew.
if __name__ == "__main__":
    sys.exit(main())
