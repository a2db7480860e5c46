"""Nothing is left of a supervised program, whoever dies: the program, its parent or the supervisor."""

import json
import queue
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pytest_webgpu.gpu import supervisor
from pytest_webgpu.gpu.supervisor import Supervised, alive

# A child that leaves the process group, as crash handlers do, and a parent of it that writes to its folder
PROGRAM = (
    "import os, subprocess, sys, time; open(os.environ['PLACE'] + '/file', 'w').close();"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True);"
    "print('loud', flush=True); time.sleep(60)"
)
ORDER = ([sys.executable, "-c", PROGRAM], {"PLACE": "{folder}/place"}, {"given/file.txt": "text"})
PARENT = f"""
import json, time
from pytest_webgpu.gpu.supervisor import Supervised
command, environment, files = {ORDER!r}
supervised = Supervised(command, print, environment, files)
while supervised.folder is None: time.sleep(0.01)
print(json.dumps([supervised.pid, supervised.folder]), flush=True)
time.sleep(60)
"""


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def assert_gone(pid, folder):
    until(lambda: not alive(pid, Path(folder).name) and not Path(folder).exists())


@pytest.fixture
def started():
    reasons = queue.Queue()
    command, environment, files = ORDER
    supervised = Supervised(command, reasons.put, environment, files)
    until(lambda: supervised.folder and len(alive(supervised.pid, Path(supervised.folder).name)) == 2)
    supervised.reasons = reasons
    yield supervised
    supervised.stop()


def test_stop_ends_the_tree_and_removes_the_folder(started):
    assert Path(started.folder, "given/file.txt").read_text() == "text"
    assert Path(started.folder, "place").is_dir()
    started.stop()
    assert alive(started.pid, Path(started.folder).name) == []
    assert not Path(started.folder).exists()
    assert started.reasons.empty()


def test_an_end_by_itself_is_told_with_status_and_output(started):
    until(lambda: Path(started.folder, "log.txt").read_text() == "loud\n")
    psutil.Process(started.pid).kill()
    assert started.reasons.get(timeout=20) == "it ended"
    assert (started.status, started.log) == (-signal.SIGKILL, "loud\n")
    assert_gone(started.pid, started.folder)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_the_supervisor_is_told_and_cleaned_up_after(started, sign):
    started.supervisor.send_signal(sign)
    assert "its supervisor was killed" in started.reasons.get(timeout=20)
    assert_gone(started.pid, started.folder)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_the_end_of_the_parent_ends_all(sign):
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with parent.stdout as lines:
        pid, folder = json.loads(lines.readline())
        parent.send_signal(sign)
        parent.wait()
    assert_gone(pid, folder)


def test_a_program_that_is_not_there_is_told():
    reasons = queue.Queue()
    supervised = Supervised(["no-such-program"], reasons.put)
    assert reasons.get(timeout=20) == "it ended"
    assert "no-such-program" in supervised.log
    supervised.stop()


def test_no_room_for_a_folder_is_told(monkeypatch, capsys):
    def full(prefix):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(supervisor.tempfile, "mkdtemp", full)
    supervisor._supervise({"command": ["true"], "environment": {}, "files": {}})
    told = json.loads(capsys.readouterr().out)
    assert told == {"exit": None, "log": "no folder could be made for it: [Errno 28] No space left on device"}


def test_a_supervisor_that_is_killed_while_it_writes_is_told(monkeypatch, tmp_path):
    script = tmp_path / "cut.py"
    script.write_text("print('{\"pid\": 1', end='', flush=True)")
    monkeypatch.setattr(supervisor, "__file__", str(script))
    reasons = queue.Queue()
    supervised = Supervised(["true"], reasons.put)
    assert "its supervisor was killed" in reasons.get(timeout=20)
    supervised.stop()
