"""An app's monthly costs on AWS: a model of its requests, units and hours.

    load      number and properties of the jobs, by type
    fleet     number of tasks and functions that run them
    sqs · records · objects · compute · watching
              usage of each of these, as charges
    standby   a second region, as it waits
    bill      the charges together, by service and by job type

Pure: no AWS is asked. The requests and items per job are checked against the real worker and
clients on in-memory SQS (tests/unit/ops/test_cost_model.py), and the resources of the stack against
the template (tests/infra/test_cost.py).
"""
