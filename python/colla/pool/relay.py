"""``python -m colla.pool.relay FILE… -- COMMAND…``: joins a pool's sockets to an agent on another host.

A process beside the pool's, so that large arrays on their way to a host hold up neither the program nor other hosts.
It ends when the pool or the agent does.
"""

import select
import socket
import subprocess
import sys
import threading

from colla.pool.channel import Channel
from colla.pool.stream import Stream, hand_out

_END_SECONDS = 10


def main(files: list[int], command: list[str]) -> None:
    channels = {file: Channel(socket.socket(fileno=file)) for file in files}
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert agent.stdin is not None and agent.stdout is not None
    stream = Stream(agent.stdout.fileno(), agent.stdin.fileno())

    def down() -> None:
        try:
            hand_out(stream, list(channels.values()))
        except (EOFError, OSError):
            for channel in channels.values():  # Wakes the other direction, too.
                channel.socket.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=down, daemon=True).start()
    try:
        _up(channels, stream)
    except OSError:
        pass  # The agent is gone.
    agent.stdin.close()
    try:
        agent.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:  # The host does not answer.
        agent.kill()


def _up(channels: dict[int, Channel], stream: Stream) -> None:
    """Until the pool has closed all channels."""
    poll = select.poll()
    for file in channels:
        poll.register(file, select.POLLIN)
    left = len(channels)
    while left > 0:
        for file, _ in poll.poll():
            try:
                message = channels[file].receive()
            except (EOFError, ConnectionError):
                poll.unregister(file)
                left -= 1
            else:
                stream.send(list(channels).index(file), *message)


if __name__ == "__main__":
    border = sys.argv.index("--")
    main([int(text) for text in sys.argv[1:border]], sys.argv[border + 1 :])
