"""``python -m tests.infra.compare BEFORE AFTER``: compare two synthesized templates.

Hashes of assets, which depend on every byte of the code, don't count as differences. Nor do texts
that ``--same 'headgate[.]lambdas=lambdas'`` makes equal.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_HASH = re.compile(r"\b[0-9a-f]{64}\b")


def differences(
    before: Any, after: Any, same: Mapping[str, str] | None = None, path: str = ""
) -> Iterator[str]:
    """Yield each place in which two templates differ, with both values.

    Args:
        before: one template, or a part of it.
        after: the other's.
        same: patterns and replacements, applied to all texts of both.
        path: the path of the part.
    """
    match before, after:
        case {}, {}:
            for key in sorted({*before, *after}):
                yield from _of_key(before, after, same, key, path)
        case [*_], [*_] if len(before) == len(after):
            for index, (one, other) in enumerate(zip(before, after, strict=True)):
                yield from differences(one, other, same, f"{path}[{index}]")
        case str(), str() if _plain(before, same) == _plain(after, same):
            return
        case _ if before != after:
            yield f"{path}: {json.dumps(before)} is now {json.dumps(after)}"


def _of_key(
    before: Any, after: Any, same: Mapping[str, str] | None, key: str, path: str
) -> Iterator[str]:
    where = f"{path}.{key}" if path else key
    if key not in after:
        yield f"{where}: is gone"
    elif key not in before:
        yield f"{where}: is new"
    else:
        yield from differences(before[key], after[key], same, where)


def _plain(text: str, same: Mapping[str, str] | None) -> str:
    for pattern, instead in (same or {}).items():
        text = re.sub(pattern, instead, text)
    return _HASH.sub("HASH", text)


def main() -> int:
    """Print the differences; return 0 if there are none."""
    parser = argparse.ArgumentParser(prog="python -m tests.infra.compare")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--same", action="append", default=[], metavar="PATTERN=TEXT")
    options = parser.parse_args()
    before, after = (json.loads(path.read_text()) for path in (options.before, options.after))
    same = dict(pair.split("=", 1) for pair in options.same)
    found = [*differences(before, after, same)]
    sys.stdout.writelines(f"{each}\n" for each in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
