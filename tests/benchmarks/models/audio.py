"""Vocoders, codecs and speech encoders of transformers, whose convolutions are dense conv1d layers,
built with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Shape = Callable[[int, int], tuple[int, ...]]

AUDIO: dict[str, tuple[str, str, Shape]] = {
    "hifigan": ("SpeechT5HifiGan", "", lambda batch, frames: (batch, frames, 80)),
    "dac-decoder": ("DacModel", "decoder", lambda batch, frames: (batch, 1024, frames)),
    "dac-encoder": ("DacModel", "encoder", lambda batch, samples: (batch, 1, samples)),
    "wav2vec2-base": ("Wav2Vec2Model", "", lambda batch, samples: (batch, samples)),
}
"""By name, a model with its default configuration, the part of it that is run, and the shape of an
input for a batch and a length in frames or samples."""


def audio_model(name: str, device: str, dtype: torch.dtype) -> nn.Module:
    """Return a model in evaluation mode.

    The weights of its convolutions keep a signal's magnitude, so that an error in them shows in the
    output.
    """
    import transformers

    kind, part, _ = AUDIO[name]
    of: Any = getattr(transformers, kind)
    torch.manual_seed(0)
    with torch.device(device):
        model: nn.Module = of(of.config_class())
        for module in model.modules():
            if isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="linear")
    return model.get_submodule(part).eval().to(dtype)


def signal(name: str, batch: int, length: int, device: str) -> torch.Tensor:
    return torch.randn(AUDIO[name][2](batch, length), device=device)
