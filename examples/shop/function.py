"""What a Lambda function that runs the shop's jobs is given: ``examples.shop.function.handler``."""

from examples.shop.contracts import app
from headgate.lambdas.consume import consumer

handler = consumer(app)
