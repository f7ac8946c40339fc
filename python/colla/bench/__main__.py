import sys

from colla.bench.command import main

sys.exit(main())
