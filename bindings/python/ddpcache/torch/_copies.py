"""Private, writable copies of samples whose arrays and tensors are views of the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def private_copies(samples: list[Any]) -> list[Any]:
    """Copies of a batch of samples, of which each part that all have alike is copied at once, into one new array.

    One piece of memory for a batch is had by a few system calls, one for each sample takes as many each. What is
    neither array nor container is immutable, and stays.
    """
    forms = set(map(_form, samples))
    if len(forms) > 1:
        return [private_copies([sample])[0] for sample in samples]
    form = forms.pop() if forms else None
    if form is None:
        return samples
    kind = form[0]
    if kind is torch.Tensor:
        block = torch.stack(samples)
        # Not unbind, whose parts torch does not let a differentiable operation change in place.
        return [block[number] for number in range(len(samples))]
    if kind is np.ndarray:
        return list(np.stack(samples)) if samples[0].ndim else [sample.copy() for sample in samples]
    if kind is dict:
        keys = form[1]
        columns = [private_copies([sample[key] for sample in samples]) for key in keys]
        return [dict(zip(keys, row, strict=True)) for row in _rows(columns, len(samples))]
    make = getattr(kind, "_make", kind)
    columns = [private_copies(list(column)) for column in zip(*samples, strict=True)]
    return [make(row) for row in _rows(columns, len(samples))]


def _form(sample: Any) -> tuple[Any, ...] | None:
    """What samples must have in common to be copied together; None for what is not copied."""
    kind = type(sample)
    if kind is torch.Tensor or kind is np.ndarray:
        return kind, sample.dtype, sample.shape
    if kind is dict:
        return kind, tuple(sample)
    if kind is list or kind is tuple or (isinstance(sample, tuple) and hasattr(kind, "_make")):
        return kind, len(sample)
    return None


def _rows(columns: list[list[Any]], count: int) -> list[tuple[Any, ...]]:
    return list(zip(*columns, strict=True)) if columns else [()] * count
