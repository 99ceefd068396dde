"""The view that takes an order."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, JsonResponse

from examples.django.jobs import Confirmation, confirm
from examples.django.tasks import count_words
from headgate.contrib.django import submit_on_commit


@transaction.atomic
def order(request: HttpRequest, number: int) -> JsonResponse:
    """Store an order; it is confirmed once that is committed, and never if it is not."""
    submit_on_commit(confirm.new(Confirmation(order=number)))
    counted = count_words.enqueue(request.GET.get("note", ""))
    return JsonResponse({"task": counted.id}, status=202)
