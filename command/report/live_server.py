# SPDX-License-Identifier: Apache-2.0
"""Serves a report on loopback while its runs go on: the page, which asks for its data again and again, and the data.

Requests that name another host than this one are refused, so that no page of the web can read a run by a name that it
has pointed here. Ports may differ, as they do where one is forwarded.
"""

import http.server
import os
import re
import sys
import threading
import time
import urllib.parse

import report_page
import run_files

ADDRESS = "127.0.0.1"
PAUSE = 5  # how many times longer than it took data are left as they are, however many tabs ask
SHORT = 0.1  # seconds that need no pause
NAMES = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]+)?", re.IGNORECASE)


class Source:
    """The newest data of the runs, and a count of how often they have changed."""

    def __init__(self, runs, library):
        self.runs, self.library = runs, library
        self.lock = threading.Lock()
        self.count, self.version, self.text, self.data = 0, "", "", None
        self.unsure = True  # what has been read may not be in the data
        self.due = 0.0  # when runs are looked at again

    def refresh(self):
        """Throws RunError where a run cannot be read; what there was stays."""
        if time.monotonic() < self.due:
            return
        began = time.thread_time()
        unsure, self.unsure = self.unsure, True
        changed = [run.read() for run in self.runs]
        if any(changed) or unsure:
            self.count += 1
            self.version = f"{os.getpid()}.{self.count}"
            self.data = report_page.collect(self.runs, live=self.version)
            self.text = report_page.data_text(self.data)
        self.unsure = False
        took = time.thread_time() - began
        self.due = time.monotonic() + PAUSE * took if took > SHORT else 0.0

    def page(self):
        with self.lock:
            self.refresh()
            return report_page.make_page(self.data, self.library)

    def newer(self, version):
        """The data, or nothing where the page has them."""
        with self.lock:
            self.refresh()
            return "" if version == self.version else self.text


class Handler(http.server.BaseHTTPRequestHandler):
    server_version, sys_version = "tutti-report", ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self):
        self.respond(with_body=True)

    def do_HEAD(self):
        self.respond(with_body=False)

    def respond(self, with_body):
        if not all(NAMES.fullmatch(host.strip()) for host in self.headers.get_all("Host", [""])):
            return self.answer(403, "text/plain", "this page is served to 127.0.0.1 and localhost alone\n", with_body)
        path, _, query = self.path.partition("?")
        try:
            if path == "/":
                return self.answer(200, "text/html", self.server.source.page(), with_body)
            if path == "/data":
                text = self.server.source.newer(urllib.parse.parse_qs(query).get("have", [""])[0])
                return self.answer(200 if text else 204, "application/json", text, with_body)
        except run_files.RunError as error:
            return self.answer(503, "text/plain", f"{error}\n", with_body)
        return self.answer(404, "text/plain", "there are / and /data\n", with_body)

    def answer(self, status, kind, text, with_body):
        content = text.encode(errors="replace")  # paths may be no text
        self.send_response(status)
        for name, value in (("Content-Type", f"{kind}; charset=utf-8"), ("Cache-Control", "no-store"),
                            ("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", "frame-ancestors 'none'"),
                            ("Cross-Origin-Resource-Policy", "same-origin"), ("Referrer-Policy", "no-referrer")):
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body and status != 204:
            self.wfile.write(content)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port, source):
        super().__init__((ADDRESS, port), Handler)
        self.source = source

    def handle_error(self, request, client_address):
        """A browser that went away is no error; any other is told."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    def address(self):
        return f"http://{ADDRESS}:{self.server_address[1]}/"
