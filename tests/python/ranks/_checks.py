"""What the scripts that ranks run share."""

import contextlib
import sys
import traceback


def run(checks, tell):
    """Runs each function and says so; a failure ends this rank at once, and with it the job."""
    for check in checks:
        try:
            check()
        except BaseException:
            print(f"failed: {check.__name__}", file=sys.stderr)
            traceback.print_exc()
            sys.stderr.flush()
            sys.exit(1)
        tell(check.__name__)


@contextlib.contextmanager
def raises(kind, text=""):
    """Expects an exception of that very kind, or one derived from it, whose message has `text` in it."""
    try:
        yield
    except kind as error:
        assert text in str(error), f"{text!r} is not in {error}"
    else:
        raise AssertionError(f"nothing raised {kind.__name__}")
