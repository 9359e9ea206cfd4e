"""The reference server that fetches web pages, made with the Python SDK."""
import http.server
import threading

from harness import expect
from install import pip
from mcp import Session

VERSION = "2026.10.24"
WHAT = f"mcp-server-fetch {VERSION} (PyPI)"


def install(cache):
    return pip(cache, f"mcp-server-fetch-{VERSION}", f"mcp-server-fetch=={VERSION}")


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path == "/page"
        body = b"<html><body><h1>A heading</h1><p>A paragraph to read.</p></body></html>" if found else b""
        self.send_response(200 if found else 404)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def check(place, python):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{web.server_port}"
        turns = [("fetch the page", [("mcp__web__fetch", {"url": f"{address}/page"})]),
                 ("fetch another", [("mcp__web__fetch", {"url": f"{address}/none"})])]
        args = ["-m", "mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips"]
        session = Session(place, {"web": {"command": str(python), "args": args}}, turns)
        report = session.open()["web"]
        expect(report["status"] == "ready", f"the server did not start: {report}")
        text = session.result("fetch the page")
        expect("A paragraph to read." in text, f"the page was not fetched: {text}")
        items = session.turn("fetch another")
        expect(items[0]["status"] == "failed", f"a missing page was fetched: {items}")
        session.close()
        web.shutdown()
