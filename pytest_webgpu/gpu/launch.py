"""How each browser is found and started: with a profile of its own that is gone afterwards, and nothing at start."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_webgpu.gpu.job import NoAdapter
from pytest_webgpu.gpu.supervisor import Supervised

CHROME_FLAGS = (
    "--headless=new",
    "--enable-unsafe-webgpu",  # also where the GPU or driver is on Chrome's block list
    "--enable-webgpu-developer-features",  # fills adapter.info
    "--user-data-dir={folder}/profile",
    "--disable-dev-shm-usage",  # /dev/shm is small in containers
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
)
# Without these a headless Chrome on Linux leaves a GPU alone; where there is none it falls back to its SwiftShader
CHROME_ON_LINUX = ("--enable-features=Vulkan", "--use-angle=vulkan", "--disable-vulkan-surface")
FIREFOX_PREFERENCES: dict[str, bool | int | str] = {
    "dom.webgpu.enabled": True,
    "gfx.webgpu.ignore-blocklist": True,
    "dom.max_script_run_time": 0,
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "browser.sessionstore.resume_from_crash": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.healthreport.uploadEnabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.systemAddon.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "toolkit.startup.max_resumed_crashes": -1,
    "toolkit.telemetry.enabled": False,
}


@dataclass(frozen=True)
class Browser:
    """`names` on PATH and then `places` are where it is looked for."""

    title: str
    names: tuple[str, ...]
    places: tuple[str, ...]
    install: str
    arguments: tuple[str, ...]
    files: dict[str, str]


BROWSERS = {
    "chrome": Browser(
        "Chrome",
        ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "chrome"),
        (
            "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
            "/Applications/Chromium.app/Contents/MacOS/Chromium",
            r"%ProgramFiles%\Google\Chrome\Application\chrome.exe",
            r"%ProgramFiles(x86)%\Google\Chrome\Application\chrome.exe",
            r"%LocalAppData%\Google\Chrome\Application\chrome.exe",
        ),
        "apt install chromium on Debian, or https://www.google.com/chrome",
        CHROME_FLAGS,
        {},
    ),
    "firefox": Browser(
        "Firefox",
        ("firefox-esr", "firefox"),
        (
            "/Applications/Firefox.app/Contents/MacOS/firefox",
            r"%ProgramFiles%\Mozilla Firefox\firefox.exe",
        ),
        "apt install firefox-esr on Debian, or https://www.mozilla.org/firefox",
        ("--headless", "--no-remote", "--profile", "{folder}/profile"),
        {
            "profile/user.js": "".join(
                f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in FIREFOX_PREFERENCES.items()
            )
        },
    ),
}
# Where a browser would otherwise leave something behind, or find somebody's settings
_PRIVATE = {"HOME": "home", "TMPDIR": "tmp", "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config"}


def find_browser(name: str) -> str:
    """The path of the browser's program. Raises NoAdapter, which says how to install it."""
    browser = BROWSERS[name]
    for candidate in browser.names:
        if found := shutil.which(candidate):
            return found
    for place in browser.places:
        if Path(os.path.expandvars(place)).is_file():
            return os.path.expandvars(place)
    raise NoAdapter(
        f"{browser.title} is not installed here (looked for {', '.join(browser.names)}). Install it: {browser.install}."
    )


def is_installed(name: str) -> bool:
    if name == "safari":
        return sys.platform == "darwin"
    try:
        return name in BROWSERS and bool(find_browser(name))
    except NoAdapter:
        return False


def start_browser(name: str, program: str, url: str, ended: Callable[[str], None]) -> Supervised:
    """Starts it headless on `url`, supervised. `ended` is called with the reason if it ends by itself."""
    browser = BROWSERS[name]
    arguments = list(browser.arguments)
    if name == "chrome" and sys.platform == "linux":
        arguments += CHROME_ON_LINUX
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # it refuses to run as root with one
    environment = {}
    if sys.platform == "linux":
        environment = {variable: "{folder}/" + folder for variable, folder in _PRIVATE.items()}
    return Supervised([program, *arguments, url], ended, environment, {**browser.files, "profile/.keep": ""})


def open_safari(url: str) -> None:
    """Opens `url` in Safari, which cannot be started apart from the user's own. Raises NoAdapter elsewhere."""
    if sys.platform != "darwin":
        raise NoAdapter("Safari needs macOS. From another machine, point it at the URL of implementation 'url'.")
    try:
        subprocess.run(["open", "-a", "Safari", url], check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise NoAdapter(f"Safari cannot be opened: {error.stderr.strip()}") from error
