"""The driver's desk: nobody is heard who does not know the secret, and nothing that was changed on the way."""

import os
import queue
import socket
import threading

import pytest

from colla.spark import _control


@pytest.fixture
def desk():
    heard, ended = queue.Queue(), queue.Queue()
    secret = os.urandom(32)
    made = _control.Desk("127.0.0.1", secret, lambda channel, message: heard.put((channel, message)), ended.put)
    made.heard, made.ended, made.secret = heard, ended, secret
    yield made
    made.close()


def test_both_ways(desk):
    caller = _control.call(("127.0.0.1", desk.port), desk.secret)
    caller.send({"kind": "hello", "text": "ü" * 100_000})
    channel, message = desk.heard.get(timeout=10)
    assert message == {"kind": "hello", "text": "ü" * 100_000}
    channel.send({"answer": 1})
    assert caller.receive() == {"answer": 1}
    caller.close()
    assert desk.ended.get(timeout=10) is channel


def test_a_wrong_secret(desk):
    with pytest.raises(OSError):
        _control.call(("127.0.0.1", desk.port), os.urandom(32)).send({"kind": "hello"})
    # One who does not know it does not learn anything by which to go on, and keeps nobody from the desk.
    with socket.create_connection(("127.0.0.1", desk.port)) as silent:
        silent.sendall(b"\0" * 100)
        test_both_ways(desk)
    assert desk.heard.empty()


@pytest.mark.parametrize("where", [0, 10, 40, -1])
def test_a_message_that_was_changed_ends_the_connection(desk, where):
    ours, theirs = socket.socketpair()
    heard = []
    made = {}
    ends = [
        threading.Thread(target=lambda: made.update(a=_control.Channel(ours, desk.secret, True))),
        threading.Thread(target=lambda: made.update(b=_control.Channel(theirs, desk.secret, False))),
    ]
    for thread in ends:
        thread.start()
    for thread in ends:
        thread.join(10)
    made["a"].send({"first": 1})
    content = bytearray(theirs.recv(1000))
    content[where] ^= 1
    before, after = socket.socketpair()
    made["b"]._connection = after
    before.sendall(bytes(content))
    before.close()
    heard.append(made["b"].receive())
    assert heard == [None]
    for end in (ours, theirs, after):
        end.close()
