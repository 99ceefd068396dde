"""Base images by digest: a tag names whatever was pushed last, a digest one image for ever."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

FILES = ("workers/Dockerfile", "ops/scaffold/templates/Dockerfile.txt", "docs/worker-service.md")
"""The files that name base images: the shop's, that of new projects, and the page to copy from."""

_FROM = re.compile(r"^(FROM\s+)([^\s@]+:[^\s@]+)(?:@sha256:[0-9a-f]{64})?", re.MULTILINE)
_INSPECT = ("docker", "buildx", "imagetools", "inspect")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def pin(files: Iterable[Path], digest_of: Callable[[str], str]) -> list[str]:
    """Write the digests of base images beside their tags, the same in all files; return the images.

    No file is changed unless all digests are known.
    """
    digests: dict[str, str] = {}

    def pinned(found: re.Match[str]) -> str:
        image = found[2]
        if image not in digests:
            digests[image] = digest_of(image)
        return f"{found[1]}{image}@{digests[image]}"

    texts = {path: _FROM.sub(pinned, path.read_text()) for path in files}
    for path, text in texts.items():
        path.write_text(text)
    return [f"{image}@{digest}" for image, digest in digests.items()]


def digest_by_docker(image: str) -> str:
    """Return the digest that a tag has in its registry now: that of all its platforms' index.

    Raises:
        ValueError: docker's answer has none.
    """
    done = subprocess.run(
        [*_INSPECT, image, "--format", "{{json .Manifest}}"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    digest = str(json.loads(done.stdout).get("digest", ""))
    if _DIGEST.fullmatch(digest) is None:
        raise ValueError(f"docker tells no digest of {image}, but {digest!r}")
    return digest
