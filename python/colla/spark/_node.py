"""``python -m colla.spark._node``: a process of a job on an executor. Its keeper starts it."""

import json
import os
import pathlib
import pickle
import socket
import sys
import traceback
from typing import Any

from colla.spark import _processes


def _secret_file(secret: bytes) -> str:
    """A file with the secret that only this user can read, and that is gone with this process."""
    descriptor = os.memfd_create("colla-secret", 0)
    os.fchmod(descriptor, 0o600)
    os.write(descriptor, secret.hex().encode())
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def main() -> None:
    order = _processes.read_value(sys.stdin.buffer)
    _processes.end_with_parent(order["keeper"])
    listener, control, *ports = order["fds"]
    os.environ.update(order["variables"])
    if order["secret"]:
        os.environ["COLLA_SECRET_FILE"] = _secret_file(order["secret"])
    sys.path[:] = order["path"] + [place for place in sys.path if place not in order["path"]]
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    from colla.spark._trainer import Trainer

    trainer = Trainer(socket.socket(fileno=listener), socket.socket(fileno=control))
    context = None
    if order["context"] is not None:
        from colla.spark.TFSparkNode import TFNodeContext

        context = TFNodeContext(**order["context"], mgr=trainer)
        context.hold_port(ports.pop(0))
        if order["release_port"]:
            context.release_port()
    for descriptor in ports:
        os.close(descriptor)
    code = 0
    try:
        from colla.spark._call import result_of

        trainer.tell_result(result_of(order["call"], context))
    except SystemExit as stop:
        if stop.code not in (None, 0):
            code = 1
            trainer.tell_error(f"SystemExit: {stop.code}\n")
    except BaseException as error:
        code = 1
        # Without the frames of this file and of _call.
        inner = error.__traceback__
        while inner is not None and pathlib.Path(inner.tb_frame.f_code.co_filename).name in ("_node.py", "_call.py"):
            inner = inner.tb_next
        text = "".join(traceback.format_exception(type(error), error, inner or error.__traceback__))
        sys.stderr.write(text)
        trainer.tell_error(text)
    trainer.close()
    sys.stdout.flush()
    sys.exit(code)


if __name__ == "__main__":
    main()
