"""The logger that Parallax' programs write to."""

import logging

log = logging.getLogger("PARALLAX")
log.setLevel(logging.INFO)
