"""``python -m horae`` is ``horae``."""

import sys

from horae.cli.main import main

sys.exit(main())
