"""The pages of dead letters: groups and lists of them, one of them, and what is done with them."""

from __future__ import annotations

from headgate.ops.console.pages.dead import acting, exporting, letter, listing

ROUTES = [*listing.ROUTES, *acting.ROUTES, *exporting.ROUTES, *letter.ROUTES]
