"""Runs the tests with the standard library alone and leaves a JUnit report, so that any Python image will do."""

from __future__ import annotations

import sys
import time
import unittest
from xml.etree import ElementTree


class Result(unittest.TextTestResult):
    """Remembers how every test ended."""

    def startTest(self, test: unittest.TestCase) -> None:
        """Begin the clock."""
        self.began = time.perf_counter()
        super().startTest(test)

    def stopTest(self, test: unittest.TestCase) -> None:
        """Write the case down."""
        name = test.id().split(".")
        case = ElementTree.SubElement(
            SUITE, "testcase", name=name[-1], classname=".".join(name[:-1]), time=f"{time.perf_counter() - self.began:.3f}"
        )
        for kind, problems in (("failure", self.failures), ("error", self.errors)):
            for failed, text in problems:
                if failed is test:
                    ElementTree.SubElement(case, kind, message=text.strip().splitlines()[-1]).text = text
        super().stopTest(test)


SUITE = ElementTree.Element("testsuite", name="intervals")

if __name__ == "__main__":
    found = unittest.defaultTestLoader.discover("tests", top_level_dir=".")
    result = unittest.TextTestRunner(resultclass=Result, verbosity=2).run(found)
    for failed, text in result.errors:
        if not isinstance(failed, unittest.TestCase) or "unittest.loader" in failed.id():
            case = ElementTree.SubElement(SUITE, "testcase", name=str(failed), classname="loading")
            ElementTree.SubElement(case, "error", message="cannot be loaded").text = text
    SUITE.set("tests", str(result.testsRun))
    ElementTree.ElementTree(SUITE).write("junit.xml", encoding="utf-8", xml_declaration=True)
    sys.exit(not result.wasSuccessful())
