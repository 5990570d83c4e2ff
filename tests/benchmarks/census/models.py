"""The public models of the census: how each is built with random weights, and an input for it.

Nothing is downloaded. A model is built on the default device, and so are its inputs: under
``torch.device("meta")`` neither takes memory or time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

LIBRARIES = ("timm", "transformers", "torchaudio")
RATE = 16000
DEPTH = {"num_hidden_layers": 2}


class Absent(Exception):
    """The installed version of a library lacks a model."""


@dataclass(frozen=True)
class Model:
    """A model of the census. ``make`` returns the module and the arguments of its call; it raises
    :class:`Absent` if the library lacks the model, or whatever the library raises."""

    library: str
    name: str
    make: Callable[[], tuple[Any, dict[str, Any]]]


def models(library: str) -> Iterator[Model]:
    """Yield the models of a library. Raise what its import raises, ImportError if it is missing."""
    yield from {"timm": _timm, "transformers": _transformers, "torchaudio": _torchaudio}[library]()


TIMM = """
    convnext_atto convnext_nano convnext_tiny convnext_base convnext_large convnextv2_tiny
    mobilenetv1_100 mobilenetv2_050 mobilenetv2_100 mobilenetv2_140 mobilenetv3_small_100
    mobilenetv3_large_100 mobilenetv4_conv_small mobilenetv4_conv_medium mobilenetv4_conv_large
    mobilenetv4_hybrid_medium efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3
    efficientnet_b4 efficientnet_lite0 efficientnetv2_s efficientnetv2_rw_t tf_efficientnet_b0
    tf_efficientnetv2_b0 tf_mobilenetv3_large_100 tf_mixnet_s mnasnet_100 semnasnet_100
    spnasnet_100 mixnet_s mixnet_l fbnetc_100 fbnetv3_b ghostnet_100 ghostnetv2_100 repghostnet_100
    tinynet_a tinynet_e hardcorenas_a lcnet_100 rexnet_100 rexnet_200 mobileone_s0 mobileone_s1
    repvit_m1 repvit_m2_3 efficientformerv2_s0 efficientformerv2_l edgenext_small edgenext_xx_small
    mobilevit_s mobilevitv2_100 fastvit_t8 fastvit_sa12 fastvit_mci0 coatnet_0_rw_224
    maxvit_tiny_tf_224 maxxvit_rmlp_nano_rw_256 inception_next_tiny davit_tiny pvt_v2_b0 pvt_v2_b2
    twins_pcpvt_small twins_svt_small coat_tiny coat_lite_tiny xcit_tiny_12_p16_224
    focalnet_tiny_srf focalnet_tiny_lrf efficientvit_b0 efficientvit_b1 efficientvit_m0
    efficientvit_m4 efficientvit_l1 tiny_vit_5m_224 starnet_s1 mambaout_femto mambaout_tiny
    rdnet_tiny convformer_s18 caformer_s18 levit_128s levit_conv_128 cspnext_s convmixer_768_32
    swiftformer_xs visformer_tiny nextvit_small vitamin_small_224 legacy_xception xception41
    nasnetalarge pnasnet5large ese_vovnet19b_dw eca_resnet33ts ecaresnet26t gcvit_xxtiny
    mvitv2_tiny cs3sedarknet_xdw shvit_s1 iformer_t poolformer_s12 regnety_008 resnext50_32x4d
"""


def _timm() -> Iterator[Model]:
    import timm

    def make(name: str) -> tuple[Any, dict[str, Any]]:
        module = timm.create_model(name, pretrained=False)
        return module, {"x": _zeros(1, *module.default_cfg["input_size"])}

    known = set(timm.list_models())
    for name in TIMM.split():
        yield Model("timm", name, partial(make, name) if name in known else _absent)


Inputs = Callable[[Any], dict[str, Any]]


def _named(argument: str, *shape: int) -> Inputs:
    return lambda config: {argument: _zeros(*shape)}


def _text(config: Any) -> dict[str, Any]:
    return {"input_ids": _ids(256)}


def _expert(config: Any) -> dict[str, Any]:
    return {"input_ids": _ids(64)}  # without their own kernels, some models loop over the tokens


def _uncached(config: Any) -> dict[str, Any]:
    mask = {"attention_mask": _ids(256)}  # without it, transformers searches for packed texts
    return _text(config) | mask | {"use_cache": False}


def _image(config: Any) -> dict[str, Any]:
    size = getattr(config, "image_size", 224)
    wide = size if isinstance(size, int) else size[-1]
    return {"pixel_values": _zeros(1, getattr(config, "num_channels", 3), wide, wide)}


def _and_decoder(inputs: Inputs) -> Inputs:
    return lambda config: inputs(config) | {"decoder_input_ids": _ids(8)}


def _to_speech(config: Any) -> dict[str, Any]:
    return {
        "input_ids": _ids(64),
        "decoder_input_values": _zeros(1, 100, config.num_mel_bins),
        "speaker_embeddings": _zeros(1, config.speaker_embedding_dim),
    }


def _series(config: Any) -> dict[str, Any]:
    past = config.context_length + max(config.lags_sequence)
    return {
        "past_values": _zeros(1, past),
        "past_time_features": _zeros(1, past, config.num_time_features),
        "past_observed_mask": _zeros(1, past) + 1,
        "future_values": _zeros(1, config.prediction_length),
        "future_time_features": _zeros(1, config.prediction_length, config.num_time_features),
    }


def _units(config: Any) -> dict[str, Any]:
    return {"input_ids": _ids(100), "spkr_id": _ids(1), "lang_id": _ids(1)}


_wave = _named("input_values", 1, 2 * RATE)
_mels = _named("input_features", 1, 80, 3000)
_mels_128 = _named("input_features", 1, 128, 3000)
_frames_80 = _named("input_features", 1, 1000, 80)
_frames_128 = _named("input_features", 1, 1000, 128)
_frames_160 = _named("input_features", 1, 400, 160)
_codec = _named("input_values", 1, 1, 2 * 24000)
_vocoded = _named("spectrogram", 1, 200, 80)
_encoder = {"encoder_layers": 2}
_both = _encoder | {"decoder_layers": 2}
_hybrid = {"num_hidden_layers": 4}

TRANSFORMERS: dict[str, tuple[Inputs, dict[str, Any]]] = {
    "Wav2Vec2Model": (_wave, DEPTH),
    "HubertModel": (_wave, DEPTH),
    "WavLMModel": (_wave, DEPTH),
    "UniSpeechModel": (_wave, DEPTH),
    "UniSpeechSatModel": (_wave, DEPTH),
    "Data2VecAudioModel": (_wave, DEPTH),
    "SEWModel": (_wave, DEPTH),
    "SEWDModel": (_wave, DEPTH),
    "Wav2Vec2ConformerModel": (_wave, DEPTH),
    "Wav2Vec2BertModel": (_frames_160, DEPTH | {"add_adapter": True}),
    "WhisperModel": (_and_decoder(_mels), _both),
    "Speech2TextModel": (_and_decoder(_frames_80), _both),
    "MoonshineModel": (_and_decoder(_wave), {}),
    "ParakeetEncoder": (_frames_80, DEPTH),
    "LasrEncoder": (_frames_128, DEPTH),
    "SeamlessM4TSpeechEncoder": (_frames_160, {"speech_encoder_layers": 2}),
    "SeamlessM4Tv2SpeechEncoder": (_frames_160, {"speech_encoder_layers": 2}),
    "SeamlessM4TCodeHifiGan": (_units, {}),
    "SpeechT5EncoderWithSpeechPrenet": (_wave, _encoder),
    "SpeechT5ForTextToSpeech": (_to_speech, _both),
    "SpeechT5HifiGan": (_vocoded, {}),
    "FastSpeech2ConformerModel": (_text, _both),
    "FastSpeech2ConformerHifiGan": (_vocoded, {}),
    "UnivNetModel": (_named("input_features", 1, 100, 100), {}),
    "EncodecModel": (_codec, {}),
    "DacModel": (_named("input_values", 1, 1, 2 * RATE), {}),
    "MimiModel": (_codec, DEPTH),
    "XcodecModel": (_named("input_values", 1, 1, 2 * RATE), {}),
    "VitsModel": (_text, DEPTH),
    "Qwen2AudioEncoder": (_mels_128, _encoder),
    "VoxtralEncoder": (_mels_128, DEPTH),
    "GraniteSpeechCTCEncoder": (_named("hidden_states", 1, 400, 160), {"num_layers": 2}),
    "ClvpEncoder": (_text, DEPTH),
    "VibeVoiceAcousticTokenizerModel": (_codec, {}),
    "InformerModel": (_series, {"prediction_length": 24, "context_length": 96}),
    "MambaModel": (_text, DEPTH),
    "Mamba2Model": (_text, DEPTH),
    "FalconMambaModel": (_text, DEPTH),
    "JambaModel": (_expert, {"use_mamba_kernels": False}),
    "RecurrentGemmaModel": (_uncached, {}),
    "ZambaModel": (_expert, {"num_hidden_layers": 14, "use_mamba_kernels": False}),
    "Zamba2Model": (_expert, {}),
    "BambaModel": (_expert, DEPTH | {"attn_layer_indices": [1]}),
    "FalconH1Model": (_expert, DEPTH),
    "NemotronHModel": (_expert, {}),
    "GraniteMoeHybridModel": (
        _expert,
        DEPTH
        | {"layer_types": ["mamba", "attention"], "num_local_experts": 2, "num_experts_per_tok": 1},
    ),
    "Lfm2Model": (_expert, _hybrid),
    "Qwen3NextModel": (_expert, _hybrid),
    "OlmoHybridModel": (_expert, _hybrid),
    "SqueezeBertModel": (_text, DEPTH),
    "ConvBertModel": (_text, DEPTH),
    "CanineModel": (_text, DEPTH),
    "YosoModel": (_text, DEPTH | {"conv_window": 35}),
    "NystromformerModel": (_text, DEPTH),
    "ConvNextModel": (_image, {}),
    "ConvNextV2Model": (_image, {}),
    "DINOv3ConvNextModel": (_image, {}),
    "MobileNetV1Model": (_image, {}),
    "MobileNetV2Model": (_image, {}),
    "MobileViTModel": (_image, {}),
    "MobileViTV2Model": (_image, {}),
    "EfficientNetModel": (_image, {}),
    "AlignVisionModel": (_image, {}),
    "SegformerModel": (_image, {}),
    "GLPNModel": (_image, {}),
    "PvtV2Model": (_image, {}),
    "CvtModel": (_image, {}),
    "VanModel": (_image, {}),
    "LevitModel": (_image, {}),
    "SwiftFormerModel": (_image, {}),
    "FocalNetModel": (_image, {}),
    "HGNetV2Backbone": (_image, {}),
    "PPLCNetBackbone": (_image, {}),
}


def _transformers() -> Iterator[Model]:
    import transformers

    def make(name: str) -> tuple[Any, dict[str, Any]]:
        kind = getattr(transformers, name, None) or _hidden(name)
        config = kind.config_class(**TRANSFORMERS[name][1])
        inputs = TRANSFORMERS[name][0]
        config._attn_implementation = "eager"  # the default reads masks, which meta forbids
        module = kind(config)
        # on the meta device, experts take bfloat16 only
        return module.bfloat16() if inputs in (_expert, _uncached) else module, inputs(config)

    def _hidden(name: str) -> Any:
        """Return a class that transformers does not export, from the module of a class that it
        exports."""
        import importlib
        import sys

        shown, folder = HIDDEN.get(name, ("", ""))
        if not folder or not hasattr(transformers, shown):
            _absent()
        importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
        return getattr(sys.modules[f"transformers.models.{folder}.modeling_{folder}"], name)

    for name in TRANSFORMERS:
        yield Model("transformers", name, partial(make, name))


HIDDEN = {
    "SeamlessM4TSpeechEncoder": ("SeamlessM4TModel", "seamless_m4t"),
    "SeamlessM4Tv2SpeechEncoder": ("SeamlessM4Tv2Model", "seamless_m4t_v2"),
    "SpeechT5EncoderWithSpeechPrenet": ("SpeechT5Model", "speecht5"),
    "GraniteSpeechCTCEncoder": ("GraniteSpeechForConditionalGeneration", "granite_speech"),
}


def _torchaudio() -> Iterator[Model]:
    import torchaudio

    def frames() -> dict[str, Any]:
        return {"input": _zeros(1, 400, 80), "lengths": _length(400)}

    def spoken() -> dict[str, Any]:
        mels = {"mel_specgram": _zeros(1, 80, 200), "mel_specgram_lengths": _length(200)}
        return {"tokens": _ids(64), "token_lengths": _length(64), **mels}

    def signal(argument: str, *shape: int) -> Callable[[], dict[str, Any]]:
        return lambda: {argument: _zeros(*shape)}

    def upsampled() -> dict[str, Any]:
        return {"waveform": _zeros(1, 1, 4 * 200), "specgram": _zeros(1, 1, 128, 8)}

    of = torchaudio.models
    conformer = {"num_heads": 4, "ffn_dim": 256, "num_layers": 2}
    wave, one = signal("waveforms", 1, 2 * RATE), signal("x", 1, 2 * RATE)
    table: dict[str, tuple[Callable[[], Any], Callable[[], dict[str, Any]]]] = {
        "Conformer": (
            partial(of.Conformer, 80, depthwise_conv_kernel_size=31, **conformer),
            frames,
        ),
        "conv_tasnet_base": (of.conv_tasnet_base, signal("input", 1, 1, 3 * 8000)),
        "hdemucs_high": (
            partial(of.hdemucs_high, ["drums", "bass", "other", "vocals"]),
            signal("input", 1, 2, 44100),
        ),
        "wav2vec2_base": (of.wav2vec2_base, wave),
        "wav2vec2_large_lv60k": (of.wav2vec2_large_lv60k, wave),
        "hubert_base": (of.hubert_base, wave),
        "wavlm_base": (of.wavlm_base, wave),
        "Wav2Letter": (of.Wav2Letter, signal("x", 1, 1, 2 * RATE)),
        "Wav2Letter mfcc": (partial(of.Wav2Letter, 40, "mfcc", 13), signal("x", 1, 13, 400)),
        "WaveRNN": (partial(of.WaveRNN, [5, 5, 8], 512, 200), upsampled),
        "Tacotron2": (of.Tacotron2, spoken),
        "squim_objective_base": (of.squim_objective_base, one),
        "squim_subjective_base": (
            of.squim_subjective_base,
            lambda: {"waveform": _zeros(1, 2 * RATE), "reference": _zeros(1, 2 * RATE)},
        ),
    }

    def make(name: str) -> tuple[Any, dict[str, Any]]:
        build, inputs = table[name]
        return build(), inputs()

    for name in table:
        yield Model("torchaudio", name, partial(make, name))


def _absent() -> tuple[Any, dict[str, Any]]:
    raise Absent("this version of the library has no such model")


def _zeros(*shape: int) -> Any:
    import torch

    return torch.zeros(*shape)


def _ids(count: int) -> Any:
    import torch

    return torch.ones(1, count, dtype=torch.long)


def _length(count: int) -> Any:
    import torch

    return torch.tensor([count])
