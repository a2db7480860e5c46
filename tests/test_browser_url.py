"""Browsers that are not there, and a browser that somebody else points at the URL."""

import sys

import pytest

from pytest_webgpu.gpu import browsers, launch
from pytest_webgpu.gpu.adapters import choose, installed
from pytest_webgpu.gpu.browser import BrowserRunner
from pytest_webgpu.gpu.job import DeadlineExceeded, DeviceLost, NoAdapter
from tests import faults
from tests.test_worker import ENDLESS, assert_serves, job


def test_a_browser_that_is_missing_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(launch.shutil, "which", lambda _: None)
    monkeypatch.setattr(launch.Path, "is_file", lambda _: False)
    monkeypatch.setattr(browsers, "_waiting", {})  # those that other tests started
    with pytest.raises(NoAdapter, match=r"Chrome is not installed here.*apt install chromium"):
        choose(implementation="chrome")
    with pytest.raises(NoAdapter, match=r"Firefox is not installed here.*apt install firefox-esr"):
        choose(implementation="firefox")
    assert not {"chrome", "firefox", "url"} & {*installed()}


@pytest.mark.skipif(sys.platform == "darwin", reason="Safari is there")
def test_safari_needs_macos():
    with pytest.raises(NoAdapter, match="Safari needs macOS"):
        choose(implementation="safari")


def test_a_page_that_comes_is_served_and_comes_back_after_faults(browser_name):
    started = []

    def visit(url):
        started.append(launch.start_browser(browser_name, launch.find_browser(browser_name), url, print))

    runner = BrowserRunner("url", announce=visit)
    try:
        assert runner.info.implementation == browser_name
        assert_serves(runner)
        with pytest.raises(DeviceLost):
            faults.lose_device(runner)
        assert_serves(runner)
        if browser_name == "chrome":  # Firefox's own process hangs with the device
            with pytest.raises(DeadlineExceeded, match=r"did not end in 1\.5 s"):
                runner.run(job(ENDLESS), deadline=1.5)
        assert len(started) == 1
    finally:
        runner.close()
        started[0].stop()
