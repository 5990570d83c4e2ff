"""Language models of transformers whose blocks have a short causal convolution, built with random
weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

PREFIX = "transformers:"
TOKENS = 1024
"""Size of the vocabulary. No figure depends on it, because the models have no head."""

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
"""For each model: the class of its configuration, and the fields that differ from its defaults.

The layers have the shapes of the published models. All models except LFM2 have fewer layers than
the published ones, and Qwen3-Next has dense blocks instead of experts.
"""


def causal_model(name: str, device: str, dtype: torch.dtype) -> nn.Module:
    """Return a model in evaluation mode, without a cache.

    The weights of its convolutions keep a signal's magnitude, so that an error in them shows in the
    output.
    """
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
