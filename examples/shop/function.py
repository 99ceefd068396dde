"""The shop's Lambda function: ``examples.shop.function.handler``."""

from examples.shop.contracts import app
from headgate.lambdas.consume import consumer

handler = consumer(app)
