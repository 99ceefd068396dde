"""The part of an app's system that tools other than CDK can create: data, functions, policies."""
