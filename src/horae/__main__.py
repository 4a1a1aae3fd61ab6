"""``python -m horae`` is ``horae``."""

import sys

from horae.cli.start import main

sys.exit(main())
