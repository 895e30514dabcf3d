"""A place on loopback that hands out a disk image as the factory does, with the factory's moods."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STEM = "/image/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba/v1.13.0/nocloud-amd64.raw"


@dataclass
class Counter:
    """What is handed out, and what befalls those who ask."""

    files: dict[str, bytes] = field(default_factory=dict)  # ending → content
    busy: int = 0  # so many answers are 500 first: the image is being built
    cut: int = 0  # so many downloads end half-way
    moved: bool = False  # downloads are sent elsewhere first
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def stem(self) -> str:
        return f"http://127.0.0.1:{self.port}{STEM}"


@contextmanager
def handing_out(counter: Counter) -> Iterator[Counter]:
    class Answers(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            counter.asked.append(f"{self.command} {self.path}")

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            if counter.busy > 0:
                counter.busy -= 1
                self.send_error(500)
                return
            content = counter.files.get(self.path.removeprefix("/elsewhere").removeprefix(STEM))
            if content is None:
                self.send_error(404)
            elif counter.moved and with_body and not self.path.startswith("/elsewhere"):
                self.send_response(302)
                self.send_header("Location", f"/elsewhere{self.path}")
                self.end_headers()
            else:
                self._hand_out(content, with_body=with_body)

        def _hand_out(self, content: bytes, *, with_body: bool) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if with_body and counter.cut > 0:
                counter.cut -= 1
                self.wfile.write(content[: len(content) // 2])
            elif with_body:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    counter.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield counter
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
