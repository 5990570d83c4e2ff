"""Language models of transformers' whose blocks hold a short causal convolution, made with random
weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

PREFIX = "transformers:"
TOKENS = 1024
"""In the vocabulary: no figure depends on it, as no head is on the models."""

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "lfm2-350m": (
        "Lfm2Config",
        {
            "hidden_size": 1024,
            "intermediate_size": 6656,
            "num_hidden_layers": 16,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "full_attn_idxs": [2, 5, 8, 10, 12, 14],
        },
    ),
    "lfm2-1.2b": (
        "Lfm2Config",
        {
            "hidden_size": 2048,
            "intermediate_size": 12288,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "full_attn_idxs": [2, 5, 8, 10, 12, 14],
        },
    ),
    "recurrentgemma-2b": (
        "RecurrentGemmaConfig",
        {"hidden_size": 2560, "intermediate_size": 15360, "num_hidden_layers": 6},
    ),
    "mamba-130m": ("MambaConfig", {"hidden_size": 768, "num_hidden_layers": 6}),
    "mamba-370m": ("MambaConfig", {"hidden_size": 1024, "num_hidden_layers": 6}),
    "falcon-mamba-7b": ("FalconMambaConfig", {"hidden_size": 4096, "num_hidden_layers": 4}),
    "mamba2-130m": (
        "Mamba2Config",
        {"hidden_size": 768, "num_heads": 24, "n_groups": 1, "num_hidden_layers": 6},
    ),
    "qwen3-next": (
        "Qwen3NextConfig",
        {"num_hidden_layers": 4, "mlp_only_layers": [0, 1, 2, 3]},
    ),
}
"""By name, the configuration's class and what of it differs from its defaults: the layers' shapes
are those of the published models. Of all but LFM2 there are fewer layers; of Qwen3-Next, each has a
dense block in the place of its experts."""


def causal_model(name: str, device: str, dtype: torch.dtype) -> nn.Module:
    """In evaluation mode, without a cache. Weights of convolutions let a signal keep its size, so
    that what they compute is seen in the output."""
    import transformers

    kind, fields = SHAPES[name]
    config = getattr(transformers, kind)(**fields, vocab_size=TOKENS, use_cache=False)
    torch.manual_seed(0)
    with torch.device(device):
        model: nn.Module = transformers.AutoModel.from_config(config)
        for module in model.modules():
            if isinstance(module, nn.Conv1d):
                nn.init.kaiming_normal_(module.weight)
    return model.eval().to(dtype)


def tokens(batch: int, length: int, device: str) -> torch.Tensor:
    return torch.randint(TOKENS, (batch, length), device=device)
