"""The web console: pages over the library, served as one ASGI app.

    front_door   what every request passes: host, origin, access, read-only
    access       who may look, and who may act
    context      `Console`: what pages read, through the shared reader, and what they do
    reader       asks AWS for each thing once in a while, however many people look
    rendering    templates, and the navigation
    forms        queries and forms, bounded
    words        numbers, spans and times as people read them
    figures      curves, drawn by the server, and the past that they draw
    pages        one module for each page, with the template of the same name

**To add a page**, such as ``/audit``:

1. ``pages/audit.py`` has the view, a plain function that runs in a thread, and its routes::

       def audit(request: Request) -> Response:
           console = console_of(request)
           seen = console.reader.read("audit", console.client.audit.list, fresh_s=5)
           return render(request, "audit.html", title="Audit", active="/audit", seen=seen)

       ROUTES = [Route("/audit", audit)]

   Ask AWS through ``console.reader`` alone, under a key that has everything that the answer depends
   on; read the query with `forms.query_of`, and a form with `forms.form_of`. A mistake of who asks
   is answered by `forms.refuse`; errors of Headgate's become pages by themselves.
2. ``templates/audit.html`` extends ``base.html``. It shows texts as they are (they are escaped),
   numbers, spans and times by the macros of ``macros.html``, and the answer's age by ``fresh``. A
   part with ``data-live`` and an id is looked at again every ``every_s`` seconds. Rows with
   ``data-row`` are walked with j and k. No ``style=`` and no script: the policy forbids both.
3. ``pages/__init__.py`` lists its routes, ``rendering.NAVIGATION`` its entry.
4. What changes something is a form, sent with POST, whose view calls ``console.act`` and answers
   with a redirect. If it can't be undone, the first POST answers with ``confirm.html``, which tells
   the count and sends the form again with ``confirmed``. A replay goes on after the answer: it is
   carried out by ``console.begin``.
5. ``tests/unit/ops/console/test_audit.py`` looks at it with data, empty, with AWS down, and with
   ``tests.support.console.MARKUP`` in every text that it shows.
"""

from headgate.ops.console.access.rules import Viewer
from headgate.ops.console.app import console

__all__ = ["Viewer", "console"]
