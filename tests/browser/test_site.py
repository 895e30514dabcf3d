"""The documentation site in a real browser."""

import json
import os
import queue
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from tools import docs_site as site
from tools.toolbox.debian import programs

BROWSER_BOUND_S = 240
OPENS_ALL = """<!doctype html><title>all pages</title><body><script>
const pages = PAGES, asked = {};
function look(page, frame) {
  const inside = frame.contentWindow;
  const loaded = inside.performance.getEntriesByType("resource").map((entry) => entry.name);
  const written = [...inside.document.querySelectorAll("script[src], img[src], iframe[src], link[href]")]
    .filter((element) => !["canonical", "next", "prev"].includes(element.rel))
    .map((element) => element.src || element.href);
  asked[page] = [...loaded, ...written].filter((url) => !url.startsWith(location.origin) && !url.startsWith("data:"));
  frame.remove();
}
(async () => {
  for (const page of pages) {
    const frame = document.createElement("iframe");
    await new Promise((done) => { frame.onload = done; frame.src = page; document.body.append(frame); });
    await new Promise((done) => setTimeout(done, 20));
    look(page, frame);
  }
  await fetch("/_found", { method: "POST", body: JSON.stringify(asked) });
})();
</script>"""


class _Site(SimpleHTTPRequestHandler):
    """Serves the pages, and takes what the browser found."""

    def __init__(self, found: queue.Queue[bytes], *args, **kwargs):
        self._found = found
        super().__init__(*args, **kwargs)

    def do_POST(self):
        self._found.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def opened_in_a_browser(folder, pages: list[str], home) -> dict[str, list[str]]:
    """Page → addresses outside of the site that showing it asks for. No name but loopback's is found meanwhile."""
    (folder / "_all.html").write_text(OPENS_ALL.replace("PAGES", json.dumps(pages)), encoding="utf-8")
    found: queue.Queue[bytes] = queue.Queue()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Site, found, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = ["--headless", "--disable-gpu", "--disable-background-networking", f"--user-data-dir={home}"]
    options += ["--no-first-run", "--disable-component-update", "--disable-sync", "--disable-extensions"]
    options += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-port=0"]
    options += ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [programs(("chromium",))["chromium"], *options, f"http://127.0.0.1:{server.server_port}/_all.html"]
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return json.loads(found.get(timeout=BROWSER_BOUND_S))
    finally:
        browser.terminate()
        browser.wait(timeout=30)
        server.shutdown()
        server.server_close()
        (folder / "_all.html").unlink()


def test_a_browser_asks_no_other_host_for_any_page(tmp_path):
    """A page that does ask is noticed: a browser fetches what draws Mermaid."""
    assert site.main() == 0
    asking = '<pre class="mermaid"><code>stateDiagram-v2</code></pre>'
    usual = (site.SITE / "404.html").read_text(encoding="utf-8")
    bad = site.SITE / "_bad.html"
    bad.write_text(usual.replace("</article>", f"{asking}</article>"), encoding="utf-8")
    pages = sorted(path.relative_to(site.SITE).as_posix() for path in site.SITE.rglob("*.html"))
    try:
        asked = opened_in_a_browser(site.SITE, pages, tmp_path)
    finally:
        bad.unlink()

    assert len(asked) == len(pages) > 60
    assert {page for page, addresses in asked.items() if addresses} == {"_bad.html"}
