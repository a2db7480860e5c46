"""Browsers that are not there, and a browser that somebody else points at the URL."""

import sys

import pytest

from pytest_webgpu.gpu import adapters, browser, browsers, launch
from pytest_webgpu.gpu.adapters import choose, installed
from pytest_webgpu.gpu.browser import BrowserRunner
from pytest_webgpu.gpu.job import DeadlineExceeded, DeviceLost, NoAdapter, RunnerDied
from pytest_webgpu.gpu.server import Message, Session
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


@pytest.mark.skipif(sys.platform == "win32", reason="the programs are shell scripts")
@pytest.mark.parametrize(
    ("program", "words"),
    [("#!/bin/sh\necho 'cannot open display' >&2\nexit 3", r"it ended; .* status 3\.\n  cannot open display"),
     ("#!/bin/sh\nexit 0", r"it ended; .* status 0\."),
     ("no program at all", "Exec format error"),
     ("#!/bin/sh\necho waiting for a lock\nexec sleep 100", r"did not end in 2 s: .* killed\.\n  waiting for a lock")],
    ids=["exits", "exits with 0", "no program", "hangs"],
)  # fmt: skip
def test_a_browser_that_does_not_start_is_none(monkeypatch, tmp_path, program, words):
    path = tmp_path / "google-chrome"
    path.write_text(program)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(browser, "START_DEADLINE", 2.0)
    monkeypatch.setattr(browsers, "_waiting", {})
    with pytest.raises(NoAdapter, match=f"(?s)chrome cannot be used. The start of {path} .*{words}"):
        choose(implementation="chrome")
    assert [*tmp_path.iterdir()] == [path]


def test_nobody_comes_to_the_url(monkeypatch, capsys):
    monkeypatch.setattr(browser, "VISIT_DEADLINE", 0.5)
    with pytest.raises(
        NoAdapter, match=r"wait for a browser at http://127.0.0.1:\d+/.* did not end in 0.5 s: none came"
    ):
        choose(implementation="url")
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")


@pytest.mark.parametrize("asked", ["all", "chrome", "wgpu-native,chrome"])
def test_a_browser_of_no_use_is_skipped_where_all_were_asked_for(pytester, monkeypatch, asked):
    def dead(*_, **__):
        raise RunnerDied("The start of it lost its browser.")

    monkeypatch.setattr(browsers, "_waiting", {})
    monkeypatch.setattr(browsers, "BrowserRunner", dead)
    monkeypatch.setattr(adapters, "installed", lambda: ["wgpu-native", "chrome"])
    pytester.makepyfile("def test_there(webgpu_adapter): pass")
    result = pytester.runpytest_inprocess("-rs", f"--webgpu-implementation={asked}")
    if asked == "all":
        result.assert_outcomes(passed=1, skipped=1)
        result.stdout.fnmatch_lines(["*NOT MEASURED: chrome cannot be used. The start of it lost its browser."])
    else:
        assert result.ret == 4
        result.stderr.fnmatch_lines(["ERROR: chrome cannot be used. The start of it lost its browser."])


def test_a_page_that_sends_no_answer_is_told():
    runner = BrowserRunner.__new__(BrowserRunner)
    runner.generation, runner.process, runner._supervises, runner._session = 0, None, False, Session("token")
    runner._session.inbox.put(Message({"neither": 1}, []))
    with pytest.raises(RunnerDied, match="The job lost its browser: the page sent what is no answer"):
        runner._receive(browser.Deadline(5), "The job", "values")
    assert runner._session is None


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
