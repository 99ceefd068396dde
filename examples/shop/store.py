"""The shop's books: orders, payments, stock, carts and sent messages, in one SQLite file.

They are kept in the directory that ``SHOP_DATA`` names, else in a temporary one. Every change has a
key of its own, so a job that runs twice changes them once.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Literal

RESTOCK_LEVEL = 10_000
"""Pieces of each product after a sync with the supplier."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
    id TEXT PRIMARY KEY, sku TEXT, quantity INTEGER, amount_cents INTEGER, tenant TEXT,
    status TEXT NOT NULL DEFAULT 'open');
CREATE TABLE IF NOT EXISTS payments (
    order_id TEXT PRIMARY KEY, amount_cents INTEGER, currency TEXT);
CREATE TABLE IF NOT EXISTS stock (sku TEXT PRIMARY KEY, pieces INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS carts (
    customer TEXT PRIMARY KEY, idle_hours INTEGER NOT NULL, reminded INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS messages (id TEXT PRIMARY KEY, kind TEXT, recipient TEXT, text TEXT);
CREATE TABLE IF NOT EXISTS attachments (
    message_id TEXT, name TEXT, content BLOB, PRIMARY KEY (message_id, name));
CREATE TABLE IF NOT EXISTS analytics (metric TEXT PRIMARY KEY, total INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS calls (about TEXT PRIMARY KEY, times INTEGER NOT NULL);
"""


class Store:
    """The books in one directory. Threads and processes may share them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._db = sqlite3.connect(
            directory / "shop.db", check_same_thread=False, isolation_level=None
        )
        # The books may be lost with the machine, but one writer must not block the others.
        self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;" + _SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Return the rows of a query."""
        with self._transaction() as db:
            return db.execute(query, values).fetchall()

    # --- orders and payments --------------------------------------------------------------------

    def take_order(
        self,
        order_id: str,
        *,
        sku: str,
        quantity: int,
        amount_cents: int,
        customer: str,
        tenant: str | None,
    ) -> None:
        """Book an order, take its pieces out of stock, and empty the customer's cart."""
        with self._transaction() as db:
            booked = db.execute(
                "INSERT OR IGNORE INTO orders (id, sku, quantity, amount_cents, tenant)"
                " VALUES (?, ?, ?, ?, ?)",
                (order_id, sku, quantity, amount_cents, tenant),
            )
            if booked.rowcount:
                db.execute("INSERT OR IGNORE INTO stock VALUES (?, ?)", (sku, RESTOCK_LEVEL))
                db.execute("UPDATE stock SET pieces = pieces - ? WHERE sku = ?", (quantity, sku))
                db.execute("DELETE FROM carts WHERE customer = ?", (customer,))

    def add_payment(self, order_id: str, amount_cents: int, currency: str) -> str:
        """Book a payment; returns the number of its receipt."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO payments VALUES (?, ?, ?)",
                (order_id, amount_cents, currency),
            )
        return f"receipt-{order_id}"

    def ship_paid_orders(self, order_id: str | None = None) -> int:
        """Move on that order, or all orders, if paid; returns how many moved."""
        with self._transaction() as db:
            return db.execute(
                "UPDATE orders SET status = 'shipped' WHERE status = 'open'"
                " AND id IN (SELECT order_id FROM payments) AND id = coalesce(?, id)",
                (order_id,),
            ).rowcount

    def sales(self) -> list[tuple[str, int, int, int]]:
        """Return orders, units and revenue in cents by product."""
        return self.rows(
            "SELECT sku, count(*), sum(quantity), sum(amount_cents) FROM orders"
            " GROUP BY sku ORDER BY sku"
        )

    def stock(self) -> list[tuple[str, int]]:
        """Return the pieces of each product, the scarcest first."""
        return self.rows("SELECT sku, pieces FROM stock ORDER BY pieces, sku")

    def aggregate(self, metric: Literal["revenue", "units"]) -> int:
        """Add up all orders, store the total and return it."""
        column = {"revenue": "amount_cents", "units": "quantity"}[metric]
        with self._transaction() as db:
            total: int = db.execute(
                f"SELECT coalesce(sum({column}), 0) FROM orders"  # noqa: S608 - one of two names
            ).fetchone()[0]
            db.execute("INSERT OR REPLACE INTO analytics VALUES (?, ?)", (metric, total))
        return total

    # --- stock, carts and messages --------------------------------------------------------------

    def restock(self) -> int:
        """Restock every product; returns how many had been below the level."""
        with self._transaction() as db:
            return db.execute(
                "UPDATE stock SET pieces = ? WHERE pieces < ?", (RESTOCK_LEVEL, RESTOCK_LEVEL)
            ).rowcount

    def leave_cart(self, customer: str, idle_hours: int) -> None:
        """Record that a customer has left a full cart alone for this long."""
        self.rows("INSERT OR REPLACE INTO carts VALUES (?, ?, 0)", customer, idle_hours)

    def remind_of_carts(self, idle_hours: int) -> int:
        """Write once to the owner of each cart left alone for this long; returns how many."""
        with self._transaction() as db:
            idle = db.execute(
                "UPDATE carts SET reminded = 1 WHERE reminded = 0 AND idle_hours >= ?"
                " RETURNING customer",
                (idle_hours,),
            ).fetchall()
            _write_reminders(db, [customer for (customer,) in idle])
        return len(idle)

    def remind_of_cart(self, customer: str) -> bool:
        """Write once to a customer, unless the cart is empty by now; returns whether it did."""
        with self._transaction() as db:
            left = db.execute(
                "UPDATE carts SET reminded = 1 WHERE reminded = 0 AND customer = ?", (customer,)
            )
            if left.rowcount:
                _write_reminders(db, [customer])
            return bool(left.rowcount)

    def add_message(
        self,
        message_id: str,
        *,
        kind: str,
        to: str,
        text: str,
        attachments: Mapping[str, bytes] | None = None,
    ) -> None:
        """Put a sent message into the outbox, with its attachments' contents by name."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO messages VALUES (?, ?, ?, ?)", (message_id, kind, to, text)
            )
            db.executemany(
                "INSERT OR IGNORE INTO attachments VALUES (?, ?, ?)",
                [(message_id, name, content) for name, content in (attachments or {}).items()],
            )

    def count_call(self, about: str) -> int:
        """Count a call of an outside service; returns the number so far, including this one."""
        [(times,)] = self.rows(
            "INSERT INTO calls VALUES (?, 1)"
            " ON CONFLICT (about) DO UPDATE SET times = times + 1 RETURNING times",
            about,
        )
        return int(times)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def _write_reminders(db: sqlite3.Connection, customers: Sequence[str]) -> None:
    db.executemany(
        "INSERT OR IGNORE INTO messages VALUES (?, 'email', ?, 'Still interested?')",
        [(f"cart-{customer}", customer) for customer in customers],
    )


_chosen: ContextVar[Store | None] = ContextVar("shop_store", default=None)


def current() -> Store:
    """Return the store set by `using`, else this process's own."""
    return _chosen.get() or _of_process()


@contextmanager
def using(directory: Path) -> Iterator[Store]:
    """Use ``directory`` for the books of everything started within the block."""
    store = Store(directory)
    token = _chosen.set(store)
    try:
        yield store
    finally:
        _chosen.reset(token)
        store.close()


@cache
def _of_process() -> Store:
    directory = Path(os.environ.get("SHOP_DATA") or tempfile.mkdtemp(prefix="headgate-shop-"))
    directory.mkdir(parents=True, exist_ok=True)
    return Store(directory)
