"""What programs for Horovod import from ``horovod.common.util``."""

import re


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Whether a version such as ``2.21.0`` is `target` or a later one."""
    return _numbers(ver) >= _numbers(target)


def _numbers(version: str) -> list[int]:
    release = re.match(r"\d+(\.\d+)*", version)
    if release is None:
        raise ValueError(f"{version!r} is no version such as 2.21.0")
    return [int(number) for number in release.group().split(".")]
