"""A browser that hangs, dies or loses its device: told within the deadline, nothing left, and a fresh one serves."""

import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from pytest_webgpu.gpu.browser import BrowserRunner
from pytest_webgpu.gpu.job import DeadlineExceeded, DeviceLost, RunnerDied
from pytest_webgpu.gpu.supervisor import alive
from tests import faults
from tests.test_worker import ENDLESS, assert_serves, job


def test_a_hang_is_killed_and_a_fresh_browser_serves(browser):
    assert_serves(browser)
    before, process = browser.generation, browser.process
    with pytest.raises(DeadlineExceeded, match=r"The job did not end in 1\.5 s: the browser was killed"):
        browser.run(job(ENDLESS), deadline=1.5)
    assert browser.generation == before + 1
    assert not psutil.pid_exists(process.pid)
    assert not Path(process.folder).exists()
    assert_serves(browser)


@pytest.mark.parametrize("fault", faults.QUICK, ids=lambda fault: fault.__name__.replace("_", "-"))
def test_a_fault_is_reported_and_nothing_is_left(browser, fault):
    assert_serves(browser)  # with a fresh browser, after the fault before
    process = browser.process
    with pytest.raises((RunnerDied, DeviceLost)) as caught:
        fault(browser)
    assert caught.value.details["reason"]
    assert not psutil.pid_exists(process.pid)
    assert not Path(process.folder).exists()


def test_strangers_are_refused_while_a_job_runs(browser):
    assert_serves(browser)
    faults.with_a_stranger(browser, lambda: assert_serves(browser))


def test_close_leaves_neither_process_nor_folder_nor_port(browser_name):
    runner = BrowserRunner(browser_name)
    port, process = runner.port, runner.process
    mark = Path(process.folder).name
    assert len(alive(process.pid, mark)) > 1
    runner.close()
    assert alive(process.pid, mark) == []
    assert not Path(process.folder).exists()
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
