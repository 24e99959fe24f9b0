"""Makes ``python -m danaus_cli`` the same as ``danaus``."""

import sys

from danaus_cli.main import main

sys.exit(main())
