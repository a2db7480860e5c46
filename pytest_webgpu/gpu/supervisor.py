"""Starts one program and answers for it: whatever happens to the parent, the program's whole tree is ended.

This file runs as a script of its own (the standard library and psutil are all it needs) in a session of its own, so
that neither Ctrl-C nor kill -9 of the parent reaches it before it has cleaned up. First line of its stdin: {"command",
"environment", "files"}, in which "{folder}" stands for a temporary folder that it makes and removes. The end of stdin
means: end. Its stdout: {"pid", "folder"}, then {"exit", "log"} when all is gone. `Supervised` is the parent's side.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

MARK = "PYTEST_WEBGPU_TREE"  # an environment variable that finds those that left the tree (crash handlers)
PREFIX = "pytest-webgpu-"


def end_tree(pid: int, mark: str, patience: float = 5.0) -> list[int]:
    """Kills `pid`, its descendants, its process group and all that carry `mark`. Returns what would not go."""
    until = time.monotonic() + patience
    while (there := alive(pid, mark)) and time.monotonic() < until:
        for process in there:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(there, timeout=0.2)
    return [process.pid for process in there]


def remove_folder(folder: str, patience: float = 5.0) -> None:
    """Removes it, also where a process that is just ending still writes there (or, on Windows, holds a file)."""
    until = time.monotonic() + patience
    while Path(folder).exists():
        shutil.rmtree(folder, ignore_errors=True)
        if time.monotonic() > until:
            return
        time.sleep(0.02)


def alive(pid: int, mark: str) -> list[psutil.Process]:
    """The tree of `pid`: its descendants, its process group (Chrome's pages lose the mark), and what is marked."""
    me = os.getpid()
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(psutil.Error):
        first = psutil.Process(pid)
        if first.environ().get(MARK) == mark:  # else the number was given to another program
            found.update({p.pid: p for p in [first, *first.children(recursive=True)]})
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            ours = process.pid in found or process.environ().get(MARK) == mark
            if not ours and hasattr(os, "getpgid"):
                ours = os.getpgid(process.pid) == pid
            if ours and process.pid != me and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = process
    return [p for p in found.values() if p.pid != me and p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


class Supervised:
    """A program under a supervisor. `ended` is called from another thread, with the reason, if it ends by itself.

    `status` is then its exit status, and `log` the end of what it printed.
    """

    def __init__(
        self, command: Sequence[str], ended: Callable[[str], None],
        environment: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.pid: int | None = None
        self.folder: str | None = None
        self.status: int | None = None
        self.log = ""
        self._ended = ended
        self._stopping = False
        windows_group = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        self.supervisor = subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True, creationflags=windows_group,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        order = {"command": [*command], "environment": dict(environment or {}), "files": dict(files or {})}
        assert self.supervisor.stdin is not None
        with contextlib.suppress(OSError):
            self.supervisor.stdin.write(json.dumps(order) + "\n")
            self.supervisor.stdin.flush()

    def stop(self) -> None:
        """Ends the program. Afterwards neither its processes nor its folder are there."""
        self._stopping = True
        assert self.supervisor.stdin is not None
        with contextlib.suppress(OSError):
            self.supervisor.stdin.close()
        try:
            self.supervisor.wait(15)
        except subprocess.TimeoutExpired:
            self.supervisor.kill()
            self.supervisor.wait()
        self._thread.join()

    def _listen(self) -> None:
        assert self.supervisor.stdout is not None
        told = False
        with self.supervisor.stdout as lines:
            for line in lines:
                if not line.endswith("\n"):  # it was killed while it wrote
                    break
                message = json.loads(line)
                if "pid" in message:
                    self.pid, self.folder = message["pid"], message["folder"]
                else:
                    told, self.status, self.log = True, message["exit"], message["log"]
        if not told and self.pid is not None and self.folder is not None:  # the supervisor itself was killed
            end_tree(self.pid, Path(self.folder).name)
            remove_folder(self.folder)
        if not self._stopping:
            self._ended("it ended" if told else "its supervisor was killed, and it with it")


def _supervise(order: dict[str, Any]) -> None:
    parent = os.getppid()
    try:
        folder = tempfile.mkdtemp(prefix=PREFIX)
    except OSError as error:
        _say({"exit": None, "log": f"no folder could be made for it: {error}"})
        return
    mark = Path(folder).name
    events: queue.Queue[None] = queue.Queue()
    pid = None
    try:
        for name, text in order["files"].items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        log = Path(folder, "log.txt")
        environment = os.environ | {k: v.replace("{folder}", folder) for k, v in order["environment"].items()}
        for name in order["environment"].values():
            if name.startswith("{folder}"):
                Path(name.replace("{folder}", folder)).mkdir(parents=True, exist_ok=True, mode=0o700)
        with log.open("wb") as output:
            program = subprocess.Popen(
                [part.replace("{folder}", folder) for part in order["command"]],
                env=environment | {MARK: mark},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        pid = program.pid
        _say({"pid": pid, "folder": folder})
        for end in (program.wait, sys.stdin.read):
            threading.Thread(target=_tell, args=(end, events), daemon=True).start()
        while True:
            with contextlib.suppress(queue.Empty):
                events.get(timeout=1.0)
                break
            if hasattr(os, "fork") and os.getppid() != parent:  # a fork of the parent may hold the pipe open
                break
        status = program.poll()
        end_tree(pid, mark)
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(5)  # else its number stays taken until somebody else reaps it
        _say({"exit": status, "log": log.read_text(errors="replace")[-2000:]})
    except OSError as error:
        _say({"exit": None, "log": str(error)})
    finally:
        if pid is not None:
            end_tree(pid, mark)
        remove_folder(folder)


def _tell(end: Callable[[], Any], events: queue.Queue[None]) -> None:
    end()
    events.put(None)


def _say(message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the parent may be gone
        print(json.dumps(message), flush=True)


def _leave(*_: object) -> None:
    raise SystemExit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)  # the folder and the tree go first: see `finally` above
    _supervise(json.loads(sys.stdin.readline()))
