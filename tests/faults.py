"""Faults injected into browsers and workers while a job runs: `python -m tests.faults 200` prints a summary.

Each must be told (a GpuError that says what happened, or a refusal), none may hang, and nothing may be left behind.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import http.client
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from pytest_webgpu.gpu import open_runner
from pytest_webgpu.gpu.adapters import choose
from pytest_webgpu.gpu.browser import BrowserRunner
from pytest_webgpu.gpu.job import (
    DeadlineExceeded,
    Drop,
    GpuError,
    Job,
    MakeBuffer,
    NoAdapter,
    ReadBuffer,
    WriteBuffer,
)
from pytest_webgpu.gpu.launch import BROWSERS, find_browser
from pytest_webgpu.gpu.supervisor import MARK, alive
from pytest_webgpu.gpu.worker import WorkerRunner
from tests.test_worker import ENDLESS, assert_serves, job

DEADLINE = 30.0  # far beyond what any fault may take to be told
BYTES = 32 << 20


def processes(runner: BrowserRunner, kind: str) -> list[psutil.Process]:
    """Those of a browser with that word in their command line."""
    found = psutil.Process(runner.process.pid).children(recursive=True)
    named = []
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):  # a browser's helpers come and go
            if kind in process.cmdline():
                named.append(process)
    return named


@contextlib.contextmanager
def soon(act: Callable[[], object], most: float = 0.3) -> Iterator[None]:
    """Does it at a random moment of what is done inside."""
    timer = threading.Timer(random.random() * most, act)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def kill_browser(runner: BrowserRunner) -> None:
    with soon(psutil.Process(runner.process.pid).kill):
        runner.run(job(ENDLESS), DEADLINE)


def kill_page(runner: BrowserRunner) -> None:
    """The process of the page alone: Chrome's renderer, Firefox's tab."""
    pages = processes(runner, "--type=renderer") + processes(runner, "tab")
    with soon(lambda: [page.kill() for page in pages if page.is_running()]):
        runner.run(job(ENDLESS), DEADLINE)


def kill_supervisor(runner: BrowserRunner) -> None:
    with soon(runner.process.supervisor.kill):
        runner.run(job(ENDLESS), DEADLINE)


def stop_server(runner: BrowserRunner) -> None:
    with soon(runner._server.close):
        runner.run(job(ENDLESS), DEADLINE)


def hang(runner: BrowserRunner) -> None:
    runner.run(job(ENDLESS), 0.5 + random.random())


def kill_gpu_process(runner: BrowserRunner) -> None:
    """Chrome's; Firefox runs WebGPU in its first process."""
    with soon(lambda: [process.kill() for process in processes(runner, "--type=gpu-process")]):
        runner.run(job(ENDLESS), DEADLINE)


def lose_device(runner: BrowserRunner) -> None:
    runner._session.send({"commands": [{"do": "lose-device"}]})
    runner.run(Job((MakeBuffer("lost", 4), ReadBuffer("lost"))), DEADLINE)


def cut_job(runner: BrowserRunner) -> None:
    data = bytes(BYTES)
    with soon(runner._server.cut, 0.05):
        while True:
            runner.run(Job((MakeBuffer("cut", BYTES), WriteBuffer("cut", data), Drop(("cut",)))), DEADLINE)


def cut_result(runner: BrowserRunner) -> None:
    with soon(runner._server.cut, 0.3):
        while True:
            runner.run(Job((MakeBuffer("cut", BYTES), ReadBuffer("cut"), Drop(("cut",)))), DEADLINE)


def with_a_stranger(runner: BrowserRunner, act: Callable[[], object]) -> int:
    """Requests without the token, with a false one, and of a second page; all are refused. Returns how many."""
    token = runner._session.token
    requests = [("GET", "/"), ("POST", "/exchange"), ("GET", f"/{token[:-1]}/"), ("POST", f"/{'x' * 43}/exchange"),
                ("GET", f"/{token}/../../etc/passwd"), ("POST", f"/{token}/exchange"),
                ("GET", f"/{token}/alive?page=other")]  # fmt: skip
    with soon(act, 0.0):
        for method, path in requests:
            connection = http.client.HTTPConnection("127.0.0.1", runner.port, timeout=10)
            connection.request(method, path, headers={"X-Page": "other"})
            answer = connection.getresponse()
            assert answer.status in (403, 404, 409), (method, path, answer.status)
            assert answer.read() == b""
            connection.close()
    return len(requests)


def leave(browser: str, sign: int) -> None:
    """Ends the parent while a job hangs. It tells by its end; the browser's processes and folder must go too."""
    code = (
        "import signal, sys; from pytest_webgpu.gpu.browser import BrowserRunner\n"
        "from tests.test_worker import ENDLESS, job\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "runner = BrowserRunner(sys.argv[1]); process = runner.process\n"
        "print(process.pid, process.folder, flush=True); runner.run(job(ENDLESS))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, browser], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    pid, folder = parent.stdout.readline().decode().split()
    time.sleep(random.random() * 0.3)
    parent.send_signal(sign)
    status = parent.wait(DEADLINE)
    parent.stdout.close()
    until = time.monotonic() + DEADLINE
    while (there := alive(int(pid), Path(folder).name)) or Path(folder).exists():
        assert time.monotonic() < until, f"left behind: {there}, {folder}"
        time.sleep(0.05)
    raise GpuError(f"the parent ended with status {status}")


def interrupt_parent(runner: BrowserRunner) -> None:
    leave(runner.name, signal.SIGINT)


def kill_parent(runner: BrowserRunner) -> None:
    leave(runner.name, signal.SIGKILL)


def stranger(runner: BrowserRunner) -> None:
    refused = with_a_stranger(runner, lambda: assert_serves(runner))
    raise GpuError(f"{refused} requests were refused")


def kill_worker(runner: WorkerRunner) -> None:
    with soon(runner._process.kill):
        runner.run(job(ENDLESS), DEADLINE)


QUICK = (kill_browser, lose_device, cut_job)
OF_BROWSERS = (*QUICK, kill_page, kill_gpu_process, kill_supervisor, stop_server, cut_result, hang, stranger,
               interrupt_parent, kill_parent)  # fmt: skip
OF_WORKERS = (kill_worker, hang)


def inject(count: int, seed: int = 0) -> tuple[list[tuple[str, str, float, str]], set[str]]:
    """(where, fault, seconds, what was told) of `count` faults spread over the browsers here and a worker.

    And the folders that the browsers had.
    """
    random.seed(seed)
    runners: dict[str, BrowserRunner | WorkerRunner] = {name: BrowserRunner(name) for name in installed()}
    runners["wgpu-native"] = open_runner(choose())
    kinds = [(n, f) for n in runners for f in (OF_WORKERS if n == "wgpu-native" else OF_BROWSERS)
             if n != "firefox" or f is not kill_gpu_process]  # fmt: skip
    told = []
    folders = set()
    try:
        for i in range(count):
            where, fault = kinds[i % len(kinds)]
            folders |= {r.process.folder for r in runners.values() if isinstance(r, BrowserRunner)}
            began = time.monotonic()
            try:
                fault(runners[where])
                what = "NOTHING"
            except GpuError as error:
                what = f"{type(error).__name__}: {error.message.splitlines()[0]}"
            told.append((where, fault.__name__, time.monotonic() - began, what))
            assert_serves(runners[where])
    finally:
        for runner in runners.values():
            runner.close()
    return told, folders


def installed() -> list[str]:
    found = []
    for name in BROWSERS:
        with contextlib.suppress(NoAdapter):
            find_browser(name)
            found.append(name)
    return found


def left(folders: set[str]) -> list[str]:
    """What is there of browsers that had those folders, and the ports of this process."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            marked = process.environ().get(MARK) in {Path(folder).name for folder in folders}
            if marked and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(f"process {process.pid} {process.name()}")
    ports = [f"port {c.laddr.port}" for c in psutil.Process().net_connections() if c.status == psutil.CONN_LISTEN]
    return processes + [f"folder {folder}" for folder in folders if Path(folder).exists()] + ports


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    told, folders = inject(asked.count, asked.seed)
    after = left(folders)
    table: dict[tuple[str, str], list[tuple[float, str]]] = collections.defaultdict(list)
    for where, fault, seconds, what in told:
        table[where, fault].append((seconds, what))
    for (where, fault), cases in sorted(table.items()):
        reported = sum(what != "NOTHING" for _, what in cases)
        longest = max(seconds for seconds, _ in cases)
        print(f"{where:12} {fault:18} {reported:3} of {len(cases):3} told, at most {longest:5.1f} s: {cases[-1][1]}")
    unreported = sum(what == "NOTHING" or (what.startswith(DeadlineExceeded.__name__) and fault != "hang")
                     for _, fault, _, what in told)  # fmt: skip
    print(f"{len(told)} injected, {len(told) - unreported} told, left behind: {after or 'nothing'}")
    return 1 if unreported or after else 0


if __name__ == "__main__":
    sys.exit(main())
