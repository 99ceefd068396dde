"""The paths of the project."""

from __future__ import annotations

from django.urls import path

from examples.django.views import order

urlpatterns = [path("orders/<int:number>/", order)]
