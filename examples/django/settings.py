"""Django's settings, with the app of the jobs and the backend of Django's tasks."""

from __future__ import annotations

SECRET_KEY = "only for this example"  # noqa: S105 - it guards nothing
ALLOWED_HOSTS = ["localhost", "testserver"]
ROOT_URLCONF = "examples.django.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
USE_TZ = True

HEADGATE_APP = "examples.django.jobs:app"
TASKS = {"default": {"BACKEND": "headgate.contrib.django.tasks.HeadgateBackend"}}
