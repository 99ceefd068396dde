"""The console in a real browser: pictures of its pages, and what people do with it.

    shop         an app whose jobs have every fate, and a bank that is down at first
    traffic      the shop's load, and SQS's metrics of it, which a local AWS has none of
    stage        the shop on a local AWS, with workers, consoles, and another site
    driver       what runs in the browser: Playwright and axe, in environments of their own

``make browser`` walks through the console as people on call do, and ``make pictures`` shoots its
pages into docs/images. Both need Chromium; CI runs neither.
"""
