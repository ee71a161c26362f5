"""Takes uploads for the public hosts named on its command line, and keeps a log of them.

Only what comes through a public host is taken: its caller then has the address that the host's name leads to. Somebody
who finds the program itself on the network is told 403, and is in the log all the same.
"""

import hashlib
import json
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PUBLIC = sys.argv[1:]


class Dropbox(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, {"service": self.headers["Host"], "upload": "POST /api/upload"})

    def do_POST(self):
        public = {socket.gethostbyname(host) for host in PUBLIC}
        through_host = self.client_address[0] in public
        digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
        event = {"host": self.headers["Host"], "path": self.path, "size": left, "through_host": through_host,
                 "client": self.headers.get("X-Forwarded-For"), "scheme": self.headers.get("X-Forwarded-Proto")}
        while left > 0 and (piece := self.rfile.read(min(left, 1 << 20))):
            digest.update(piece)
            left -= len(piece)
        event["sha256"] = digest.hexdigest()
        with open("/received/log.jsonl", "a") as log:
            log.write(json.dumps(event) + "\n")
        self.answer(201 if through_host else 403, {"sha256": event["sha256"]})

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("", 8080), Dropbox).serve_forever()
