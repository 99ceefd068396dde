"""Health, metrics, traces and signs of life of a worker."""
