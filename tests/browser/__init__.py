"""Pictures of the console's pages, shot in a real browser: ``make pictures``.

    shop         an app whose jobs have every fate, and a bank that is down at first
    traffic      the shop's load, and SQS's metrics of it, which a local AWS has none of
    stage        the shop on a local AWS, with workers and its console
    driver       what runs in the browser: Playwright, in an environment of its own

It needs Chromium, and CI doesn't run it.
"""
