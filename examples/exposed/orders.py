"""Keeps orders: port 3000 takes and shows them, port 3001 forgets them.

It knows nothing of its public names or of TLS. Who asks, and how, it reads from the headers that a proxy sets.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ORDERS = []


class Orders(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, {"orders": ORDERS, "asked": f"{self.headers['X-Forwarded-Proto']}://{self.headers['Host']}{self.path}",
                          "by": self.headers["X-Forwarded-For"]})

    def do_POST(self):
        ORDERS.append(self.rfile.read(int(self.headers["Content-Length"])).decode(errors="replace"))
        self.answer(201, {"order": len(ORDERS)})

    def answer(self, status, value):
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Admin(Orders):
    def do_DELETE(self):
        ORDERS.clear()
        self.answer(200, {"orders": ORDERS})


if __name__ == "__main__":
    threading.Thread(target=ThreadingHTTPServer(("", 3001), Admin).serve_forever, daemon=True).start()
    ThreadingHTTPServer(("", 3000), Orders).serve_forever()
