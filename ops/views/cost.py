"""``headgate cost``: an app's monthly costs on AWS, as tables or as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from headgate.ops.costing.estimate import Estimate
from headgate.ops.prices import AS_OF, REGION, all_prices
from headgate.ops.views.output import TextTable, show, show_json

_CENT = 0.005
_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def show_cost(found: Estimate, others: Mapping[str, float], *, as_json: bool) -> None:
    """Print an estimate, and the month's cost under each alternative."""
    if as_json:
        show_json(_as_json(found, others))
        return
    _services(found).show()
    _types(found).show()
    for line in _notes(found, others):
        show(line)


def _services(found: Estimate) -> TextTable:
    right = ("units", "USD")
    table = TextTable("service", "for", *right, right=right, title=_title(found))
    small = 0.0
    for item in found.bill.items:
        if item.usd < _CENT:
            small += item.usd
        else:
            units = f"{_short(item.units)} {item.unit}"
            table.row(item.service, item.what, units, f"{item.usd:,.2f}")
    table.row("", "items under a cent", "", f"{small:,.2f}")
    table.section()
    table.row("", "in all", "", f"{found.bill.usd:,.2f}")
    return table


def _types(found: Estimate) -> TextTable:
    right = ("jobs", "USD", "a million")
    table = TextTable("job type", *right, "mostly for", right=right, title="By job type")
    by_type = found.bill.by_type
    for stream in sorted(found.fleet.streams, key=lambda each: -_sum(by_type, each.job.name)):
        usd = _sum(by_type, stream.job.name)
        million = f"{usd / stream.jobs * 1e6:,.2f}" if stream.jobs else ""
        row = (_short(stream.jobs), f"{usd:,.2f}", million, _mostly(by_type, stream.job.name))
        table.row(stream.job.name, *row)
    table.section()
    table.row("independent of jobs", "", f"{_sum(by_type, None):,.2f}", "", _mostly(by_type, None))
    return table


def _notes(found: Estimate, others: Mapping[str, float]) -> list[str]:
    crews = [
        f"The group {crew.group.name!r}: {crew.tasks:.3g} of {crew.group.max_tasks} tasks on "
        f"average, {crew.at_peak} at the peak."
        for crew in found.fleet.crews
    ]
    return [
        "",
        *_standby(found),
        *crews,
        *(f"Assumed: {each}." for each in found.assumptions),
        f"Prices: {REGION}'s list, {AS_OF} (ops/prices.py). Check them before you rely on them.",
        *(["", "It would be"] if others else []),
        *(f"  {usd:>10,.2f} USD with {what}" for what, usd in others.items()),
        *(f"Warning: {each}." for each in found.warnings),
    ]


def _standby(found: Estimate) -> list[str]:
    if found.standby_usd is None:
        return []
    return [
        f"Of it {found.standby_usd:,.2f} USD for the standby region, which waits without a job."
    ]


def _title(found: Estimate) -> str:
    free = ", beyond the free tier" if found.bill.free_tier else ""
    return f"{_short(found.load.jobs)} jobs a month{free}: {found.bill.usd:,.2f} USD"


def _sum(by_type: Mapping[str | None, Mapping[str, float]], name: str | None) -> float:
    return sum(by_type.get(name, {}).values())


def _mostly(by_type: Mapping[str | None, Mapping[str, float]], name: str | None) -> str:
    usd = by_type.get(name, {})
    return max(usd, key=lambda service: usd[service]) if usd else ""


def _short(value: float) -> str:
    """Format a value with three significant digits: 12.5 k."""
    for scale, letter in _SCALES:
        if value >= scale * 0.9995:
            return f"{float(f'{value / scale:.3g}'):g} {letter}"
    return f"{float(f'{value:.3g}'):g}"


def _as_json(found: Estimate, others: Mapping[str, float]) -> dict[str, Any]:
    bill = found.bill
    return {
        "usd": bill.usd,
        "standby_usd": found.standby_usd,
        "free_tier": bill.free_tier,
        "by_service": bill.by_service,
        "items": [dataclasses.asdict(item) for item in bill.items],
        "by_type": _types_as_json(found),
        "whatever_runs": _usd_as_json(found, None),
        "workers": _workers_as_json(found),
        "load": _load_as_json(found),
        "assumptions": found.assumptions,
        "warnings": found.warnings,
        "otherwise": others,
        "region": REGION,
        "prices_as_of": AS_OF,
        "prices": [dataclasses.asdict(price) for price in all_prices()],
    }


def _types_as_json(found: Estimate) -> list[dict[str, Any]]:
    return [
        {
            "type": stream.job.name,
            "jobs": stream.jobs,
            "attempts": stream.attempts,
            **_usd_as_json(found, stream.job.name),
        }
        for stream in found.fleet.streams
    ]


def _usd_as_json(found: Estimate, name: str | None) -> dict[str, Any]:
    by_type = found.bill.by_type
    return {"usd": _sum(by_type, name), "by_service": by_type.get(name, {})}


def _workers_as_json(found: Estimate) -> list[dict[str, Any]]:
    return [
        {
            "name": crew.group.name,
            "needed": crew.needed,
            "tasks": crew.tasks,
            "at_peak": crew.at_peak,
        }
        for crew in found.fleet.crews
    ]


def _load_as_json(found: Estimate) -> dict[str, Any]:
    load = {each.name: getattr(found.load, each.name) for each in dataclasses.fields(found.load)}
    duration = found.load.duration
    return load | {
        "shares": dict(found.load.shares),
        "duration": duration.total_seconds() if duration else None,
    }
