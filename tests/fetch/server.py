"""server.py FILE: serves FILE over HTTP on a free port of the loopback interface, which it prints, until its input ends.

What the path says is how it misbehaves:

/good     as it should, with ranges          /plain    knows nothing of ranges
/break    breaks off after a third of what is left, every time    /cut  the same, without saying how long the file is
/lie      other bytes, as many               /long     more bytes than the file has
/stall    half of the file, then nothing     /missing  404
/moved    sends to /good
"""

import http.server
import pathlib
import sys
import threading
import time

CONTENT = pathlib.Path(sys.argv[1]).read_bytes()
requests = []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kind = self.path.strip("/")
        requests.append(f"{kind} {self.headers.get('Range', '-')}")
        if kind == "log":
            return self.answer(200, "\n".join(requests[:-1]).encode())
        if kind == "missing":
            return self.send_error(404)
        if kind == "moved":
            self.send_response(302)
            self.send_header("Location", "/good")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        content = {"lie": CONTENT[::-1], "long": CONTENT * 2}.get(kind, CONTENT)
        wanted = self.headers.get("Range")
        begin = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and kind != "plain" else 0
        rest = content[begin:]
        if kind in ("break", "cut"):
            self.answer(206 if begin else 200, rest[:max(1, len(rest) // 3)], None if kind == "cut" else len(rest))
        elif kind == "stall":
            self.answer(206 if begin else 200, rest[:len(rest) // 2], len(rest))
            time.sleep(30)
        else:
            self.answer(206 if begin else 200, rest)
        self.close_connection = True

    def answer(self, code, content, length=...):
        self.send_response(code)
        if length is not None:
            self.send_header("Content-Length", str(len(content) if length is ... else length))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # Clients go away, as they should.


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
