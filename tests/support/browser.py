"""Chromium as the tests of the pages drive it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

from tests.support.tools import need_program

__all__ = ["chromium"]


@asynccontextmanager
async def chromium(*arguments: str) -> AsyncIterator[Browser]:
    """A fresh browser, with further arguments; the test is skipped, and listed, where none is installed."""
    program = need_program("chromium", "chromium-browser", "google-chrome", how="install Chromium")
    usual = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=[*usual, *arguments])
        yield browser
        await browser.close()
