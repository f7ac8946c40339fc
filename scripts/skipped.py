"""skipped.py FILE…: what did not run, and why, from the JUnit files that ctest and pytest wrote.

Prints one line for each reason, with the tests that gave it. A file that is not there counts as empty.
"""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def reason_of(case):
    """Why a test case was skipped; None if it ran."""
    skipped = case.find("skipped")
    if skipped is None and case.get("status") != "notrun":
        return None
    # GoogleTest says the place in one line and the reason in the next; scripts end with their reason.
    output = (case.findtext("system-out") or "").strip()
    if found := re.search(r"^\S+:\d+: Skipped\n(.+)$", output, re.MULTILINE):
        return found.group(1).strip()
    if output:
        return output.splitlines()[-1].strip()
    message = skipped.get("message", "") if skipped is not None else ""
    return message.splitlines()[0] if message else "no reason given"


def main(files):
    tests = collections.defaultdict(list)
    for file in files:
        if not pathlib.Path(file).exists():
            continue
        for case in ElementTree.parse(file).iter("testcase"):
            if reason := reason_of(case):
                tests[reason].append(case.get("name"))
    count = sum(len(names) for names in tests.values())
    print(f"skipped: {count or 'no'} test{'' if count == 1 else 's'}")
    for reason, names in sorted(tests.items()):
        print(f"  {reason}: {', '.join(names)}")


if __name__ == "__main__":
    main(sys.argv[1:])
