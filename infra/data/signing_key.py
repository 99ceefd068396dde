"""The secret with the key that signs an app's messages, and who may read it."""

from __future__ import annotations

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from headgate.infra.data.encryption import grant_key_use, key_use
from headgate.infra.data.nag_suppressions import acknowledge
from headgate.jobs.definitions.app import App
from headgate.jobs.errors import ConfigurationError

READ = "secretsmanager:GetSecretValue"
"""Signing and checking messages."""

_ID = "SigningKey"

_CHARACTERS = 64  # letters and digits, so 381 random bits

_ROTATED = "Its versions are the user's to end: messages that an older one has signed wait for days"


def make_signing_key(
    scope: Construct, app: App, removal_policy: RemovalPolicy, key: kms.IKey | None
) -> secretsmanager.ISecret | None:
    """Return the secret of an app whose messages are signed; None for any other app.

    It is created with a random value, unless the app names one. It has the removal policy of the
    app's data, as messages that are signed with it are of no use without it.

    Raises:
        ConfigurationError: the app was given the keys themselves, which no template may hold.
    """
    if (signing := app.signing) is None:
        return None
    if signing.given_keys:
        raise ConfigurationError(
            f"the app {app.name!r} has Signing(keys=...), which is for tests and local use: deploy "
            "it with Signing(), or with Signing(secret=...) and the name of a secret"
        )
    if signing.secret is not None:
        stack = Stack.of(scope)
        return _existing(scope, signing.secret, stack.account, stack.region, None)
    made = secretsmanager.Secret(
        scope,
        _ID,
        secret_name=app.topology.signing_secret_name,
        description=f"Signs the messages of {app.topology.schedule_group}",
        generate_secret_string=secretsmanager.SecretStringGenerator(
            password_length=_CHARACTERS, exclude_punctuation=True
        ),
        encryption_key=key,
        removal_policy=removal_policy,
    )
    acknowledge(made, "SMG4", _ROTATED)
    return made


def import_signing_key(
    scope: Construct, app: App, account: str, region: str, key: kms.IKey | None
) -> secretsmanager.ISecret | None:
    """Return the secret of an app that another stack deploys; None if its messages aren't signed.

    Args:
        scope: the scope.
        app: the app.
        account: the account that it is deployed in; likewise the region.
        region: the region.
        key: the key that the app's own secret is encrypted with.
    """
    if (signing := app.signing) is None or signing.given_keys:
        return None
    own = signing.secret is None
    name = signing.secret or app.topology.signing_secret_name
    return _existing(scope, name, account, region, key if own else None)


def read_statements(secret: secretsmanager.ISecret | None) -> list[iam.PolicyStatement]:
    """Return the statements that let a role read the key, if there is one."""
    if secret is None:
        return []
    read = iam.PolicyStatement(actions=[READ], resources=[_resource(secret)])
    return [read, *key_use(secret.encryption_key, "secretsmanager")]


def secret_variable(secret: secretsmanager.ISecret | None) -> dict[str, str]:
    """Return the environment variable with the secret's ARN or, if that isn't known, its name."""
    if secret is None:
        return {}
    return {"HEADGATE_SIGNING_SECRET": secret.secret_full_arn or secret.secret_name}


def grant_signing(
    grant: iam.Grant, grantee: iam.IGrantable, secret: secretsmanager.ISecret | None
) -> iam.Grant:
    """Extend a grant by reading the key, if there is one."""
    if secret is None:
        return grant
    read = iam.Grant.add_to_principal(
        grantee=grantee, actions=[READ], resource_arns=[_resource(secret)]
    )
    return grant_key_use(grant.combine(read), grantee, secret.encryption_key, "secretsmanager")


def _existing(
    scope: Construct, name: str, account: str, region: str, key: kms.IKey | None
) -> secretsmanager.ISecret:
    if name.startswith("arn:"):
        return secretsmanager.Secret.from_secret_attributes(
            scope, _ID, secret_complete_arn=name, encryption_key=key
        )
    partial = Stack.of(scope).format_arn(
        service="secretsmanager",
        resource="secret",
        resource_name=name,
        account=account,
        region=region,
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    return secretsmanager.Secret.from_secret_attributes(
        scope, _ID, secret_partial_arn=partial, encryption_key=key
    )


def _resource(secret: secretsmanager.ISecret) -> str:
    """Return the ARN to grant: AWS ends a secret's with a hyphen and six random characters.

    https://docs.aws.amazon.com/secretsmanager/latest/userguide/auth-and-access_iam-policies.html
    """
    return secret.secret_full_arn or f"{secret.secret_arn}-??????"
