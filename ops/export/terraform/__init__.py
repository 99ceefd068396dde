"""CloudFormation's resources as Terraform's: one table of types, one of references.

arguments       how a property becomes an argument or a block
kinds           the types whose properties have an argument each
composed        the types that become several resources
references      functions of a template as expressions
document        the whole file
"""
