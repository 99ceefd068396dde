"""Sets Django up in a worker, before it imports the handlers.

::

    app = App("shop", handlers=["headgate.contrib.django.setup", "shop.handlers"])

The variable ``DJANGO_SETTINGS_MODULE`` names the settings, as everywhere in Django.
"""

from __future__ import annotations

import django

django.setup()
