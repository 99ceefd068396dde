"""An app's deployment for tools other than CDK, as `headgate export` writes it.

artifacts        the files, and the folder that they are written into
target           what they are rendered from: the app, its deployment, its place on AWS
kubernetes       manifests, with `scaled_object` for KEDA
compose          a file for Compose; `systemd` units
policies         IAM's policies
template         the template of CloudFormation; `terraform` renders it once more
functions        the zip of the bridge and the sweep
"""
