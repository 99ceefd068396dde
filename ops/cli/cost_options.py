"""The options of ``headgate cost``: its assumptions about an app's jobs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

_COUNT = re.compile(r"(\d+(?:\.\d+)?)([kMG]?)")
_FACTORS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


def count(text: str | float) -> float:
    """Read ``250``, ``10k``, ``2.5M`` or ``1G``.

    Raises:
        typer.BadParameter: the text has another form.
    """
    if isinstance(text, float):
        return text  # typer hands defaults to a parser too
    if (found := _COUNT.fullmatch(text)) is None:
        raise typer.BadParameter(f"{text!r} is not a number of jobs: write 250, 10k, 2.5M or 1G")
    return float(found[1]) * _FACTORS[found[2]]


def shares(texts: list[str] | None) -> dict[str, float]:
    """Read texts such as ``send-email=0.5``, each job type once.

    Raises:
        typer.BadParameter: a text has another form, or names a type a second time.
    """
    found: dict[str, float] = {}
    for text in texts or []:
        name, _, share = text.partition("=")
        try:
            value = float(share)
        except ValueError as error:
            raise typer.BadParameter(f"{text!r} is not a share: write send-email=0.5") from error
        if name in found:
            raise typer.BadParameter(f"there are two shares of {name!r}")
        found[name] = value
    return found


Jobs = Annotated[
    float,
    typer.Option("--jobs", parser=count, metavar="N", help="Jobs submitted in a month: 250k, 10M."),
]
Shares = Annotated[
    list[str] | None,
    typer.Option(
        "--share",
        metavar="TYPE=PART",
        help="A type's share of the jobs, 0 to 1; may be repeated.  [default: equal shares]",
    ),
]
PayloadBytes = Annotated[
    int, typer.Option("--payload", metavar="BYTES", help="Size of a payload's JSON.")
]
ResultBytes = Annotated[
    int, typer.Option("--result", metavar="BYTES", help="Size of a result's JSON.")
]
FailureRate = Annotated[
    float, typer.Option(metavar="PART", help="Share of the attempts that fail, 0 to 1.")
]
Together = Annotated[
    float,
    typer.Option(metavar="N", help="Messages per request: 1 one by one, 10 in bulk or a backlog."),
]
Peak = Annotated[
    float, typer.Option(metavar="FACTOR", help="Peak rate of jobs, as a multiple of the mean.")
]
Delayed = Annotated[
    float,
    typer.Option(metavar="PART", help="Share of the jobs delayed by over 15 minutes, 0 to 1."),
]
Children = Annotated[
    float, typer.Option(metavar="PART", help="Share of the jobs that handlers submit, 0 to 1.")
]
Bundled = Annotated[
    float | None,
    typer.Option(
        metavar="N", help="Jobs in a message, of types with bundle=.  [default: what fits]"
    ),
]
Tenants = Annotated[bool, typer.Option("--tenants", help="Jobs are submitted for tenants.")]
FreeTier = Annotated[bool, typer.Option("--free-tier", help="Subtract AWS's free tier.")]
CdkJson = Annotated[
    Path | None,
    typer.Option(
        "--cdk-json",
        metavar="PATH",
        help="The file that describes the deployment.  [default: ./cdk.json]",
    ),
]
