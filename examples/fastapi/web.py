"""The web app: ``uvicorn examples.fastapi.web:web``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request

from examples.fastapi.jobs import Receipt, app, send_receipt
from headgate import AsyncClient, Tenant
from headgate.contrib.fastapi import Headgate

jobs = Headgate(app)
web = FastAPI(lifespan=jobs.lifespan)

Client = Annotated[AsyncClient, Depends(jobs.client)]


@web.post("/orders/{number}", status_code=202)
async def order(number: int, email: str, shop: str, client: Client) -> dict[str, str]:
    """Take an order, and send its receipt afterwards."""
    receipt = Receipt(order=number, email=email)
    job = await client.submit(send_receipt, receipt, tenant=Tenant(org=shop))
    return {"job": job.id}


async def of_own_shop(request: Request, job: Any) -> bool:
    """Let a shop see its own jobs; who asks would come from your authentication."""
    return job.tenant is not None and job.tenant.org == request.headers.get("x-shop")


web.include_router(jobs.status_routes(may_see=of_own_shop, results=True), prefix="/jobs")
