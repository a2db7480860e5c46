"""A failure leaves a folder that shows it without this project."""

import http.server
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_webgpu.conformance import reproducer
from pytest_webgpu.conformance.check import Check, ConformanceFailure, Settings, check
from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.launch import find_browser, start_browser
from pytest_webgpu.kernels.source import parse_source
from pytest_webgpu.ops.contract import get
from tests.faulty_kernels import ADD, FAULTS, SOFTMAX, SUM


@pytest.fixture(scope="module")
def runner():
    opened = open_runner(choose("auto", "wgpu-native", None))
    yield opened
    opened.close()


def fail(text, runner, folder, **settings):
    kernel = parse_source(text, Path("mine.wgsl"))
    with pytest.raises(ConformanceFailure) as failure:
        check(get(kernel.header.op), kernel, runner, settings=Settings(failures=folder, **settings))
    (script,) = folder.glob("*/reproduce.py")
    assert f"without us     python {script}" in str(failure.value)
    assert f"in a browser   {script.with_suffix('.html')}" in str(failure.value)
    return failure.value, script


def run(script):
    """In an interpreter that cannot see this project."""
    command = [sys.executable, "-I", str(script)]
    return subprocess.run(command, capture_output=True, text=True, cwd=script.parent, timeout=60, check=False)


def test_the_script_shows_the_fault_and_its_end(runner, tmp_path):
    failure, script = fail(SOFTMAX.replace("/ total", "/ (total + 0.5)"), runner, tmp_path)
    done = run(script)
    assert done.returncode == 1, done.stderr
    assert "elements are wrong" in done.stdout
    worst = json.dumps(list(map(int, str(failure).split("out[")[1].split("]")[0].split(","))))
    assert f"at {worst}: got" in done.stdout
    kernel = script.parent / "kernel.wgsl"
    kernel.write_text(kernel.read_text().replace("/ (total + 0.5)", "/ total"))
    mended = run(script)
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert "nothing is wrong" in mended.stdout
    assert "backwards.*.wgsl, of the kernel as it was, is left out" in mended.stdout


@pytest.mark.parametrize(
    ("fault", "words"),
    {
        "store guard lets one more through": "bytes behind its end were written",
        "an input written": "bytes of it were written",
        "output kept and added to": "elements are wrong",
        "one past the end is read": "elements are wrong",
        "missing barrier in a tree": "runs backwards)",
        "slot of the cache ignores the past": "elements are wrong",
    }.items(),
)
def test_what_is_not_in_the_outputs_of_one_run_shows_too(fault, words, runner, tmp_path):
    text, what, by, _ = FAULTS[fault]
    _, script = fail(text.replace(what, by), runner, tmp_path)
    done = run(script)
    assert done.returncode == 1, done.stdout + done.stderr
    assert words in done.stdout
    assert done.stdout.endswith("runs: wrong\n")


def test_a_right_kernel_reproduces_nothing(runner, tmp_path):
    kernel = parse_source(SUM, Path("mine.wgsl"))
    contract = get("sum")
    checked = Check(contract, kernel, runner, Settings())
    planned = checked.plan(checked.fixed[1])
    place = reproducer.write(tmp_path, checked.subject, planned, checked.wanted(planned), "it is right")
    done = run(place / "reproduce.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is wrong" in done.stdout


def test_a_hang_leaves_its_inputs(runner, tmp_path):
    text = ADD.replace("    let i = id.x;", "    let i = id.x;\n    loop { if (out[0] == 1.25) { break; } }")
    _, script = fail(text, runner, tmp_path, deadline=0.5)
    case = json.loads((script.parent / "case.json").read_text())
    assert {b["variable"] for b in case["bindings"]} == {"a", "b", "out", "params"}
    assert case["outputs"] == []


def test_the_page_holds_kernel_and_case(runner, tmp_path):
    _, script = fail(ADD.replace("a[i] +", "/* </script> */ 2.0 * a[i] +"), runner, tmp_path)
    page = script.with_suffix(".html").read_text()
    assert page.count("</script>") == 1
    assert "{{" not in page
    assert json.loads(page.split("const CASE = ")[1].split(";\n")[0])["op"] == "add"


@pytest.mark.parametrize("fault", ["an input written", "missing barrier in a tree", None])
def test_the_page_says_so_too(fault, runner, tmp_path, browser_name):
    text, what, by, _ = FAULTS[fault or "divided by a padded n"]
    _, script = fail(text.replace(what, by), runner, tmp_path)
    page = script.with_suffix(".html").read_text()
    said = told_by(browser_name, page if fault else page.replace(json.dumps(by)[1:-1], json.dumps(what)[1:-1]))
    assert said[-1] == f"12 runs: {'wrong' if fault else 'nothing is wrong'}"
    if fault == "an input written":
        written = [line.split(":")[0] for line in said if line.endswith("bytes of a were written")]
        assert written == ["as it is", "with other words around", "backwards"]


def told_by(browser_name, page):
    """The lines that the page ends with in that browser, each once."""
    answer: queue.Queue[str] = queue.Queue()
    post = """<script>setInterval(() => {
      const said = document.getElementById("said").textContent;
      if (/(runs|error): /.test(said)) fetch("/", {method: "POST", body: said});
    }, 100);</script>"""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write((page + post).encode())

        def do_POST(self):
            answer.put(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        started = start_browser(browser_name, find_browser(browser_name), url, lambda _: None)
        try:
            return list(dict.fromkeys(answer.get(timeout=60).splitlines()))
        finally:
            started.stop()
            server.shutdown()
