"""The queue of learning: what users mean, and which prompts serve them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

from examples.assistant.language import Classifier, wilson
from examples.assistant.store import Store
from examples.assistant.tenancy import data_of, for_each_tenant
from headgate import Concurrency, Discard, JobContext, Priority, Queue, cron

learning = Queue(
    "learning",
    priorities=[Priority.LOW],
    # It takes the CPU: one at a time leaves it to the others.
    concurrency=Concurrency(1, scope="fleet"),
)


class Training(BaseModel):
    """The bounds of training, and of its outcome."""

    model_config = ConfigDict(frozen=True)

    least_examples: int = Field(default=20, ge=2)
    least_accuracy: float = Field(default=0.6, ge=0, le=1)
    """Below it the present patterns stay."""


class Feedback(BaseModel):
    """A user's vote on an answer."""

    model_config = ConfigDict(frozen=True)

    prompt: str
    helpful: bool


@learning.job(
    "train-patterns",
    timeout=timedelta(minutes=30),
    schedule=cron("0 3 * * ? *"),
    schedule_payload=Training(least_examples=10, least_accuracy=0.7),
)
async def train_patterns(wanted: Training, store: Store, ctx: JobContext) -> float:
    """Learn which action follows which words; return the accuracy on examples held back."""
    if ctx.tenant is None:
        await for_each_tenant(store, ctx, train_patterns, wanted)
        return 0.0
    data = data_of(store, ctx)
    if len(data.examples) < wanted.least_examples:
        raise Discard(f"{len(data.examples)} examples are too few")
    # In a thread: meanwhile the event loop has other jobs to run.
    accuracy = await asyncio.to_thread(cross_validated, data.examples)
    if accuracy < wanted.least_accuracy:
        raise Discard(f"an accuracy of {accuracy:.0%} is too low")
    data.patterns = Classifier.trained(data.examples)
    await ctx.progress(100, "trained", accuracy=accuracy)
    return accuracy


@learning.job("evaluate-patterns", timeout=timedelta(minutes=10))
async def evaluate_patterns(ctx: JobContext, store: Store) -> float:
    """Return the share of all examples that the present patterns get right."""
    data = data_of(store, ctx)
    if data.patterns is None or not data.examples:
        raise Discard("there are no patterns, or no examples")
    right = sum(data.patterns.label(text) == label for text, label in data.examples)
    return right / len(data.examples)


@learning.job("score-feedback", timeout=timedelta(seconds=30))
async def score_feedback(feedback: Feedback, store: Store, ctx: JobContext) -> float:
    """Count a vote, and rank the prompts by what their votes prove; return the prompt's score."""
    data = data_of(store, ctx)
    data.votes[feedback.prompt].append(feedback.helpful)
    scores = {name: wilson(sum(votes), len(votes)) for name, votes in data.votes.items()}
    data.ranking = sorted(scores, key=lambda name: (-scores[name], name))
    return scores[feedback.prompt]


def cross_validated(examples: list[tuple[str, str]], folds: int = 5) -> float:
    """Return the accuracy on each fifth of the examples after training on the other four."""
    right = 0
    for fold in range(folds):
        held_back = examples[fold::folds]
        rest = [each for at, each in enumerate(examples) if at % folds != fold]
        model = Classifier.trained(rest)
        right += sum(model.label(text) == label for text, label in held_back)
    return right / len(examples)
