"""The examples of web frameworks, from a request to the job's end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.testing import Harness


def test_flask_s_example_welcomes_a_subscriber() -> None:
    from examples.flask.app import app, jobs, web, welcome

    harness = Harness(app)
    jobs._client = harness.client
    answer = web.test_client().post("/subscribers", data={"email": "ada@example.com"})
    harness.drain()
    assert answer.status_code == 202
    job: Any = answer.json
    sent = harness.client.handle(job["job"], welcome).result(timeout=0)
    assert sent == "from hello@example.com to ada@example.com"


@pytest.mark.usefixtures("django")
def test_django_s_example_confirms_an_order_and_counts_its_words() -> None:
    from django.test import Client

    from examples.django.jobs import app, confirm
    from headgate.contrib.django import using_client

    harness = Harness(app)
    with using_client(harness.client):
        answer = Client().get("/orders/7/?note=a+few+words")
    harness.drain()
    assert answer.status_code == 202
    [confirmed] = harness.completed(confirm)
    assert confirmed.payload.order == 7
    task: Any = json.loads(answer.content)["task"]
    assert harness.client.handle(task).result(timeout=0) == 3


async def test_fastapi_s_example_tells_a_shop_of_its_receipt() -> None:
    from examples.fastapi.jobs import app
    from examples.fastapi.web import jobs, web
    from tests.unit.contrib.asking import ask

    harness = Harness(app)
    jobs._make_client = lambda: harness.async_client
    async with web.router.lifespan_context(web):
        path = "/orders/7?email=ada@example.com&shop=books"
        status, answer = await ask(web, "POST", path)
        await harness.adrain()
        _, told = await ask(web, "GET", f"/jobs/{answer['job']}", x_shop="books")
    assert (status, told["state"], told["result"]) == (202, "completed", "receipt-7.pdf")
