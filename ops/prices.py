"""AWS's prices, as `headgate cost` counts them: the only place that states a price.

List prices of one region, without discounts, taxes and savings plans. AWS changes them without
notice, and other regions differ by up to a third: check the source before you rely on a figure.
Where AWS has tiers by volume this is the first and most expensive one.
"""

from __future__ import annotations

from headgate.jobs.values.light_dataclass import light_dataclass

REGION = "us-east-1"
AS_OF = "2026-11"

MONTH_S = 730 * 3600
"""AWS's billing month of 730 hours."""

_MILLION = 1_000_000
_SQS = "https://aws.amazon.com/sqs/pricing/"
_DYNAMODB = "https://aws.amazon.com/dynamodb/pricing/on-demand/"
_S3 = "https://aws.amazon.com/s3/pricing/"
_FARGATE = "https://aws.amazon.com/fargate/pricing/"
_LAMBDA = "https://aws.amazon.com/lambda/pricing/"
_EVENTBRIDGE = "https://aws.amazon.com/eventbridge/pricing/"
_CLOUDWATCH = "https://aws.amazon.com/cloudwatch/pricing/"
_VPC = "https://aws.amazon.com/vpc/pricing/"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a number of units."""

    service: str
    what: str
    """For display: "requests to standard queues"."""
    unit: str
    """The unit that a bill counts: "request", "GB-month"."""
    usd: float
    """USD for ``each`` units."""
    each: int = 1
    free: float = 0
    """Units free of charge in every month, without end, for all stacks of an account together."""
    allowance: str = ""
    """The free units that several prices have in common; empty: they are this one's alone."""
    source: str

    def of(self, units: float) -> float:
        """Return USD for a number of units, ignoring the free ones."""
        return units / self.each * self.usd


SQS_STANDARD = Price(
    service="SQS",
    what="requests to standard queues",
    unit="request",
    usd=0.40,
    each=_MILLION,
    free=_MILLION,
    allowance="SQS's requests",
    source=_SQS,
)
SQS_FIFO = Price(
    service="SQS",
    what="requests to FIFO queues",
    unit="request",
    usd=0.50,
    each=_MILLION,
    free=_MILLION,
    allowance="SQS's requests",
    source=_SQS,
)
SQS_FAIR = Price(
    service="SQS",
    what="fair queues: requests with a tenant, on top",
    unit="request",
    usd=0.10,
    each=_MILLION,
    source=_SQS,
)

WRITES = Price(
    service="DynamoDB",
    what="write request units",
    unit="WRU",
    usd=0.625,
    each=_MILLION,
    source=_DYNAMODB,
)
READS = Price(
    service="DynamoDB",
    what="read request units",
    unit="RRU",
    usd=0.125,
    each=_MILLION,
    source=_DYNAMODB,
)
STORED = Price(
    service="DynamoDB",
    what="storage",
    unit="GB-month",
    usd=0.25,
    free=25,
    source=_DYNAMODB,
)
RECOVERABLE = Price(
    service="DynamoDB",
    what="point-in-time recovery",
    unit="GB-month",
    usd=0.20,
    source=_DYNAMODB,
)

OBJECTS_PUT = Price(
    service="S3", what="objects put", unit="request", usd=0.005, each=1000, source=_S3
)
OBJECTS_GOT = Price(
    service="S3", what="objects read", unit="request", usd=0.0004, each=1000, source=_S3
)
OBJECTS_STORED = Price(service="S3", what="storage", unit="GB-month", usd=0.023, source=_S3)

VCPU = Price(service="Fargate", what="vCPU (ARM)", unit="vCPU-hour", usd=0.03238, source=_FARGATE)
MEMORY = Price(service="Fargate", what="memory (ARM)", unit="GB-hour", usd=0.00356, source=_FARGATE)
SPOT_VCPU = Price(
    service="Fargate", what="vCPU (ARM, Spot)", unit="vCPU-hour", usd=0.0113, source=_FARGATE
)
"""A cautious Spot price: they vary, between 50 and 70 % below the others."""
SPOT_MEMORY = Price(
    service="Fargate", what="memory (ARM, Spot)", unit="GB-hour", usd=0.00125, source=_FARGATE
)
IMAGE = Price(
    service="ECR",
    what="the workers' image",
    unit="GB-month",
    usd=0.10,
    source="https://aws.amazon.com/ecr/pricing/",
)

PUBLIC_ADDRESS = Price(
    service="VPC", what="public IPv4 addresses of tasks", unit="hour", usd=0.005, source=_VPC
)
INTERFACE_ENDPOINT = Price(
    service="VPC",
    what="interface endpoints, by zone",
    unit="hour",
    usd=0.01,
    source="https://aws.amazon.com/privatelink/pricing/",
)

LOAD_BALANCER = Price(
    service="ELB",
    what="the console's load balancer",
    unit="hour",
    usd=0.0225,
    source="https://aws.amazon.com/elasticloadbalancing/pricing/",
)

KEYS = Price(
    service="KMS",
    what="keys of alerts and payloads",
    unit="key-month",
    usd=1.00,
    source="https://aws.amazon.com/kms/pricing/",
)

SECRETS = Price(
    service="Secrets Manager",
    what="the secret of the signing key",
    unit="secret-month",
    usd=0.40,
    source="https://aws.amazon.com/secrets-manager/pricing/",
)

POLLERS = Price(
    service="Lambda",
    what="provisioned pollers of queues",
    unit="poller-hour",
    usd=0.00925,
    source=_LAMBDA,
)
"""An event poller unit of SQS's, which is one poller."""

INVOCATIONS = Price(
    service="Lambda",
    what="invocations",
    unit="request",
    usd=0.20,
    each=_MILLION,
    free=_MILLION,
    source=_LAMBDA,
)
DURATION_X86 = Price(
    service="Lambda",
    what="duration (x86)",
    unit="GB-second",
    usd=16.6667,
    each=_MILLION,
    free=400_000,
    allowance="Lambda's duration",
    source=_LAMBDA,
)
DURATION = Price(
    service="Lambda",
    what="duration (ARM)",
    unit="GB-second",
    usd=13.3334,
    each=_MILLION,
    free=400_000,
    allowance="Lambda's duration",
    source=_LAMBDA,
)

FIRINGS = Price(
    service="EventBridge",
    what="Scheduler's invocations",
    unit="invocation",
    usd=1.00,
    each=_MILLION,
    free=14 * _MILLION,
    source=_EVENTBRIDGE,
)

LOGS = Price(
    service="CloudWatch",
    what="logs ingested",
    unit="GB",
    usd=0.50,
    free=5,
    source=_CLOUDWATCH,
)
FLOW_LOGS = Price(
    service="CloudWatch",
    what="flow logs ingested",
    unit="GB",
    usd=0.50,
    source=_CLOUDWATCH,
)
LOGS_STORED = Price(
    service="CloudWatch", what="logs stored", unit="GB-month", usd=0.03, source=_CLOUDWATCH
)
METRICS = Price(
    service="CloudWatch",
    what="custom metrics",
    unit="metric-month",
    usd=0.30,
    free=10,
    source=_CLOUDWATCH,
)
ALARMS = Price(
    service="CloudWatch",
    what="metrics watched by alarms",
    unit="metric-month",
    usd=0.10,
    free=10,
    source=_CLOUDWATCH,
)
COMPOSITES = Price(
    service="CloudWatch",
    what="composite alarms",
    unit="alarm-month",
    usd=0.50,
    source=_CLOUDWATCH,
)
DASHBOARDS = Price(
    service="CloudWatch",
    what="dashboards",
    unit="dashboard-month",
    usd=3.00,
    free=3,
    source=_CLOUDWATCH,
)


def all_prices() -> list[Price]:
    """Return every price, in the order of this file."""
    return [value for value in globals().values() if isinstance(value, Price)]
