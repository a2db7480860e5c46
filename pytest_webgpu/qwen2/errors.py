"""What can be wrong with a model or with what it is asked."""

from __future__ import annotations


class ModelError(Exception):
    """The root of this tree."""


class NoModel(ModelError):
    """A name that is no model and a folder that is none. The message says what a model's folder holds."""


class BadWeights(ModelError):
    """A tensor is missing or has another shape than the model needs. The message names it and the file."""


class BadPrompt(ModelError):
    """A prompt that is empty, holds a token that is none, or is too long for the cache."""
