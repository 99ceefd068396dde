"""What an app costs on AWS in a month: a model of its requests, units and hours.

    load      how many jobs of which types, and what they are like
    fleet     how many tasks and functions run them
    sqs · records · objects · compute · watching
              what each of these uses, as charges
    bill      the charges together, by service and by job type

Pure: no AWS is asked. What a job costs in requests and items is checked against the real worker and
clients on in-memory SQS (tests/unit/ops/test_cost_model.py), and what stands in the stack against
the template (tests/infra/test_cost.py).
"""
