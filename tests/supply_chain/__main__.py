"""``python -m tests.supply_chain sbom | audit [LOCK ...] | pin``, from the repository's root."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.supply_chain.audit import audit
from tests.supply_chain.images import FILES, digest_by_docker, pin
from tests.supply_chain.sbom import LOCKS, write

_FOLDER = Path("build/sbom")


def _sbom() -> int:
    wrong = write(_FOLDER)
    sys.stdout.write(f"{_FOLDER}: {', '.join(LOCKS)} and licences.md\n")
    sys.stdout.writelines(f"may not be shipped: {line}\n" for line in wrong)
    return int(bool(wrong))


def _audit() -> int:
    return audit(sys.argv[2:] or [*LOCKS.values(), "requirements.lock"])


def _pin() -> int:
    images = pin(map(Path, FILES), digest_by_docker)
    sys.stdout.writelines(f"{image}\n" for image in images)
    return 0


_COMMANDS = {
    "sbom": _sbom,
    "audit": _audit,
    "pin": _pin,
}

if __name__ == "__main__":
    sys.exit(_COMMANDS[sys.argv[1]]())
