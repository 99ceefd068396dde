"""The jobs, which a worker runs: ``headgate dev examples.fastapi.jobs:app``."""

from __future__ import annotations

from pydantic import BaseModel

from headgate import App, JobContext

app = App("orders")


class Receipt(BaseModel):
    """The payload: an order's receipt."""

    order: int
    email: str


@app.job("send-receipt", records="full")  # with its tenant, from its submission on
async def send_receipt(receipt: Receipt, ctx: JobContext) -> str:
    """Send the receipt of an order."""
    await ctx.progress(50, "rendering")
    ctx.log.info("the receipt of order %d is sent", receipt.order)
    return f"receipt-{receipt.order}.pdf"
