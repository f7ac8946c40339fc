import sys

from colla.tensorflow.bench.command import main

sys.exit(main())
