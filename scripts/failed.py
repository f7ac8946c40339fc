"""failed.py FILE: the names of the tests that failed, a line each, from a JUnit file that ctest or pytest wrote."""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def failed(case):
    return case.get("status") == "fail" or case.find("failure") is not None or case.find("error") is not None


def main(file):
    if pathlib.Path(file).exists():
        for case in ElementTree.parse(file).iter("testcase"):
            if failed(case):
                print(case.get("name"))


if __name__ == "__main__":
    main(sys.argv[1])
