"""CDK constructs that provision an app's system on AWS."""
