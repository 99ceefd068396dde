"""The KMS keys that seal an app's payloads and results, and who may ask them for what.

Every permission is bound to the encryption context of the app and its stage, and to one ``use``:
who may open results may not open payloads for that. Keys that are named by alias in the app are
permitted by that alias, whichever key it stands for.
https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from headgate.infra.data.nag_suppressions import acknowledge_wildcard
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.sealing import key_names, own_alias

Use = Literal["payload", "result"]


class PayloadKey(Construct):
    """The app's own key, under the alias by which its processes name it; rotated every year.

    What it has sealed is lost with it, so it has the removal policy of the app's data. So has its
    alias, or a stack that returns would give it to a new key, which opens nothing of the old one's:
    as it is, the alias is in the way until both are imported.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, app: App, removal_policy: RemovalPolicy
    ) -> None:
        super().__init__(scope, construct_id)
        self.key = kms.Key(
            self,
            "Key",
            description=f"Seals the payloads and results of {app.name}",
            enable_key_rotation=True,
            removal_policy=removal_policy,
        )
        kms.Alias(
            self.key,
            "Alias",
            alias_name=own_alias(app),
            target_key=self.key,
            removal_policy=removal_policy,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadKeys:
    """The keys of an app's ``encryption=``, for permissions; without that, every grant is empty."""

    app: App
    account: str
    region: str
    scope: Construct

    def grant_seal(self, grantee: iam.IGrantable, use: Use) -> iam.Grant:
        """Let ``grantee`` ask the newest key for data keys."""
        return self._grant(grantee, "kms:GenerateDataKey", key_names(self.app)[:1], use)

    def grant_open(self, grantee: iam.IGrantable, use: Use) -> iam.Grant:
        """Let ``grantee`` have data keys unwrapped, by any of the keys."""
        return self._grant(grantee, "kms:Decrypt", key_names(self.app), use)

    def grant_work(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` open the payloads that it runs, and seal what comes of them."""
        grant = self.grant_open(grantee, "payload").combine(self.grant_seal(grantee, "result"))
        if any(declared.once for declared in self.app.types.values()):
            # The claim of a job that is done holds its result, for a delivery that comes later.
            grant = grant.combine(self.grant_open(grantee, "result"))
        return grant

    def grant_operate(self, grantee: iam.IGrantable, *, opens: bool) -> iam.Grant:
        """Let ``grantee`` seal what a replay finds open, and open everything if it ``opens``."""
        grant = self.grant_seal(grantee, "payload")
        if opens:
            grant = grant.combine(self.grant_open(grantee, "payload"))
            grant = grant.combine(self.grant_open(grantee, "result"))
        return grant

    def _grant(
        self, grantee: iam.IGrantable, action: str, keys: tuple[str, ...], use: Use
    ) -> iam.Grant:
        grant = iam.Grant.drop(grantee, f"{self.app.name} seals nothing")
        for key in keys:
            resource, conditions = self._resource(key)
            if "*" in resource:
                why = f"KMS knows keys by their ids alone; the alias {key} is a condition"
                acknowledge_wildcard(grantee, resource, why)
            made = iam.Grant.add_to_principal(
                grantee=grantee,
                actions=[action],
                resource_arns=[resource],
                conditions={"StringEquals": {**self._context(use), **conditions}},
            )
            grant = grant.combine(made)
        return grant

    def _resource(self, key: str) -> tuple[str, dict[str, str]]:
        """Return the ARN of a key, and what narrows it."""
        if not key.startswith("arn:"):
            arn = Stack.of(self.scope).format_arn(
                service="kms",
                resource="key",
                resource_name="*",
                account=self.account,
                region=self.region,
            )
            return arn, {"kms:RequestAlias": key}
        place, _, name = key.rpartition(":")
        if name.startswith("alias/"):
            return f"{place}:key/*", {"kms:RequestAlias": name}
        return key, {}

    def _context(self, use: Use) -> dict[str, str]:
        found = {"app": self.app.name, "stage": self.app.stage, "use": use}
        return {
            f"kms:EncryptionContext:{name}": value
            for name, value in found.items()
            if value is not None
        }
