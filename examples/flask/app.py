"""The web app, for ``flask --app examples.flask.app run``, and its jobs, for `headgate dev`."""

from __future__ import annotations

from flask import Flask, current_app, request
from pydantic import BaseModel

from headgate import App
from headgate.contrib.flask import Headgate

app = App("newsletter")
jobs = Headgate(app)


class Welcome(BaseModel):
    """The payload: whom to welcome."""

    email: str


@app.job("welcome")
def welcome(to: Welcome) -> str:
    """Welcome a subscriber, from the address that Flask's configuration has."""
    sender: str = current_app.config["SENDER"]
    return f"from {sender} to {to.email}"


def create_app() -> Flask:
    """Return the web app."""
    web = Flask("newsletter")
    web.config["SENDER"] = "hello@example.com"
    jobs.init_app(web)

    @web.post("/subscribers")
    def subscribe() -> tuple[dict[str, str], int]:
        job = jobs.client.submit(welcome, Welcome(email=request.form["email"]))
        return {"job": job.id}, 202

    return web


web = create_app()
