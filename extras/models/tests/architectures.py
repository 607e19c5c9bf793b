"""Small nets of many architectures, with random weights. This imports PyTorch, and downloads
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from warnings import catch_warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from vision_package import import_torchvision

with catch_warnings(action="ignore"):  # of torch.jit, which they use
    torchvision = import_torchvision(torch)  # the others import it
    timm = pytest.importorskip("timm", reason="timm is not installed")
    hf = pytest.importorskip("transformers", reason="transformers is not installed")


class Side(NamedTuple):
    """A length that each call chooses: that of an example, the least and the largest."""

    name: str
    value: int
    low: int
    high: int


class Input(NamedTuple):
    """An input: its shape, and for indices the number of values."""

    shape: tuple[int | Side, ...]
    high: int = 0

    def tensor(self, seed: int, lengths: Mapping[str, int]) -> Any:
        """Return a tensor with numbers of a seed."""
        random = np.random.default_rng(seed)
        sides = []
        for each in self.shape:
            sides.append(lengths.get(each.name, each.value) if isinstance(each, Side) else each)
        if self.high:
            return torch.from_numpy(random.integers(0, self.high, sides))
        return torch.from_numpy(random.standard_normal(sides).astype(np.float32))


class Net(NamedTuple):
    """A net.

    Attributes
    ----------
    make, inputs, options
        How it is made, its inputs by name, and other arguments.
    step, cache, make_step
        The inputs of a step with a cache, what gives the cache as arguments, and how the net for
        steps is made if that is another.
    """

    make: Callable[[], Any]
    inputs: dict[str, Input]
    options: Mapping[str, Any] = MappingProxyType({})
    step: dict[str, Input] | None = None
    cache: Callable[[Any], dict[str, Any]] = lambda _: {}
    make_step: Callable[[], Any] | None = None


BATCH = Side("batch", 2, 1, 3)
COUNT = Side("n", 6, 2, 9)
#: Configurations of transformers.
SMALL = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 32,
}
GROUPED = SMALL | {"num_key_value_heads": 1, "head_dim": 16, "pad_token_id": 0}
SEEN = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
}
D_MODEL = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}
TOKENS = {"input_ids": Input((BATCH, COUNT), 50)}
STEP = {"input_ids": Input((1, 1), 50)}
IMAGES = {"pixel_values": Input((BATCH, 3, 32, 32))}
PICTURES = {"x": Input((BATCH, 3, 32, 32))}
SERIES = {"x": Input((BATCH, COUNT, 8))}


def encoder(name: str, **more: Any) -> Net:
    """Return an encoder of texts of transformers."""
    return Net(lambda: _made(f"{name}Model", name, {**SMALL, **more}), TOKENS)


def decoder(
    name: str, options: Mapping[str, Any] = SMALL, head: str = "ForCausalLM", **more: Any
) -> Net:
    """Return a decoder of transformers, and the steps of its cache."""

    def cache(net: Any) -> dict[str, Any]:
        return {"past_key_values": hf.StaticCache(config=net.config, max_cache_len=8)}

    def make() -> Any:
        return _made(f"{name}{head}", name, {**options, **more})

    return Net(make, TOKENS, {}, STEP, cache)


def with_window(net: Net) -> Net:
    """Return a decoder whose cache has all tokens, as the layers of a sliding window branch by a
    number of Python.
    """

    def cache(made: Any) -> dict[str, Any]:
        own = net.cache(made)
        layers = own["past_key_values"].layers
        layers[:] = [hf.cache_utils.StaticLayer(8) for _ in layers]
        return own

    return net._replace(cache=cache)


def viewer(name: str, **more: Any) -> Net:
    """Return a net of transformers for pictures."""
    return Net(lambda: _made(f"{name}Model", name, {**SEEN, **more}), IMAGES)


def _made(model: str, config: str, options: Mapping[str, Any]) -> Any:
    """Return a net of transformers. What imports it may use what PyTorch deprecates."""
    return getattr(hf, model)(getattr(hf, f"{config}Config")(**options))


def image(name: str, size: int = 32, **more: Any) -> Net:
    """Return a net of timm."""
    inputs = {"x": Input((BATCH, 3, size, size))}
    return Net(lambda: timm.create_model(name, num_classes=10, **more), inputs)


def shaken(net: Any) -> Any:
    """Return a net with other weights: some begin with layers of zeros, which hide the others."""
    with torch.no_grad():
        for each in net.parameters():
            each.add_(torch.randn(each.shape) * 0.1)
    return net


def vision(name: str, size: int = 32, **more: Any) -> Net:
    """Return a net of torchvision."""
    inputs = {"x": Input((BATCH, 3, size, size))}
    return Net(lambda: torchvision.models.get_model(name, weights=None, **more), inputs)


# -- Nets of torch's own layers.


class UNet(nn.Module):
    """Two steps down, two up, with the results of the way down beside those of the way up."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)])
        self.middle = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU())
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 16, 2, 2), nn.ConvTranspose2d(32, 8, 2, 2)])
        self.last = nn.Conv2d(16, 3, 1)

    def forward(self, x: Any) -> Any:
        kept = []
        for each in self.down:
            x = F.relu(each(x))
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for each in self.up:
            x = torch.cat([each(x), kept.pop()], 1)
        return self.last(x)


class DiT(nn.Module):
    """A block of a diffusion transformer: a time modulates the normalizations."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(4, 32, 2, 2)
        self.position = nn.Parameter(torch.randn(1, 64, 32))
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 192))
        self.norms = nn.ModuleList(nn.LayerNorm(32, elementwise_affine=False) for _ in range(2))
        self.qkv = nn.Linear(32, 96)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU("tanh"), nn.Linear(64, 32))
        self.last = nn.Linear(32, 16)

    def forward(self, x: Any, t: Any) -> Any:
        angles = t[:, None] * torch.exp(torch.arange(8) * -0.5)
        shifts = self.time(torch.cat([angles.cos(), angles.sin()], 1))[:, None].chunk(6, 2)
        y = self.patches(x).flatten(2).transpose(1, 2) + self.position
        z = self.norms[0](y) * (1 + shifts[0]) + shifts[1]
        q, k, v = self.qkv(z).unflatten(2, (3, 2, 16)).permute(2, 0, 3, 1, 4)
        z = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        y = y + shifts[2] * z
        y = y + shifts[3] * self.mlp(self.norms[1](y) * (1 + shifts[4]) + shifts[5])
        return F.pixel_shuffle(self.last(y).transpose(1, 2).unflatten(2, (8, 8)), 2)


class VAE(nn.Module):
    """An encoder to a mean and a deviation, and a decoder. The noise is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.GroupNorm(2, 8)
        )
        self.decode = nn.Sequential(
            nn.Upsample(scale_factor=2), nn.Conv2d(4, 8, 3, padding=1), nn.SiLU(),
            nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(8, 3, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: Any, noise: Any) -> Any:
        mean, deviation = self.encode(x).chunk(2, 1)
        z = mean + noise * torch.exp(deviation.clamp(-10, 10) / 2)
        return {"picture": self.decode(z).sigmoid(), "mean": mean}


class Recurrent(nn.Module):
    """Recurrent layers and a classifier of the last position."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer
        self.last = nn.LazyLinear(5)
        self(torch.zeros(1, 2, 8))

    def forward(self, x: Any) -> Any:
        return self.last(self.layer(x)[0][:, -1])


class Remembering(nn.Module):
    """A recurrent layer that keeps its states as buffers."""

    def __init__(self, layer: Any, count: int) -> None:
        super().__init__()
        self.layer = layer
        self.count = count
        for number in range(count):
            self.register_buffer(f"state{number}", torch.zeros(2, 1, 16))

    def forward(self, x: Any) -> Any:
        states = tuple(getattr(self, f"state{number}") for number in range(self.count))
        y, new = self.layer(x, states if self.count > 1 else states[0])
        for own, value in zip(states, new if self.count > 1 else [new], strict=True):
            own.copy_(value)
        return y


class Translator(nn.Module):
    """torch's own transformer, with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.layers = nn.Transformer(32, 2, 2, 2, 48, batch_first=True)
        self.last = nn.Linear(32, 50)

    def forward(self, source: Any, target: Any) -> Any:
        mask = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        words = (self.words(source), self.words(target))
        return self.last(self.layers(*words, tgt_mask=mask, tgt_is_causal=True))


class DLRM(nn.Module):
    """Bags of embeddings, a perceptron, and the products of each pair of them."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(20, 8, mode="sum") for _ in range(3))
        self.bottom = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(14, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, x: Any, indices: Any) -> Any:
        parts = [self.bottom(x)]
        for number, bag in enumerate(self.bags):
            parts.append(bag(indices[:, number]))
        y = torch.stack(parts, 1)
        rows, columns = torch.tril_indices(4, 4, -1)
        return self.top(torch.cat([parts[0], (y @ y.transpose(1, 2))[:, rows, columns]], 1))


class Graph(nn.Module):
    """Two layers of a graph net: messages along edges are added at their ends."""

    def __init__(self, *, has_attention: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 4)])
        self.scores = nn.ModuleList([nn.Linear(32, 1), nn.Linear(8, 1)])
        self.has_attention = has_attention

    def forward(self, x: Any, edges: Any) -> Any:
        source, target = edges
        for layer, score in zip(self.layers, self.scores, strict=True):
            y = layer(x)
            messages = y[source]
            if self.has_attention:
                weight = F.leaky_relu(score(torch.cat([messages, y[target]], 1))).exp()
                total = torch.zeros(x.shape[0], 1).index_add(0, target, weight)
                messages = messages * weight / (total[target] + 1e-6)
            x = F.elu(y + torch.zeros_like(y).index_add(0, target, messages))
        return x


class PointNet(nn.Module):
    """Features of points, and the largest of each."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1)
        )
        self.last = nn.Linear(32, 5)

    def forward(self, x: Any) -> Any:
        return self.last(self.layers(x).amax(2)).log_softmax(1)


class TCN(nn.Module):
    """Dilated causal convolutions with gates, as WaveNet has them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=1 << n) for n in range(3))

    def forward(self, x: Any) -> Any:
        for number, layer in enumerate(self.layers):
            value, gate = layer(F.pad(x, (1 << number, 0))).chunk(2, 1)
            x = x + value.tanh() * gate.sigmoid()
        return x


class Transformed(nn.Module):
    """A spatial transformer: a net chooses where a picture is read."""

    def __init__(self) -> None:
        super().__init__()
        self.chooser = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 6))

    def forward(self, x: Any) -> Any:
        theta = self.chooser(x).view(-1, 2, 3) * 0.2 + torch.eye(2, 3)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)


class Reader(nn.Module):
    """Convolutions of a line of text, and an LSTM over its columns."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.layer = nn.LSTM(32, 16, bidirectional=True, batch_first=True)
        self.last = nn.Linear(32, 11)

    def forward(self, x: Any) -> Any:
        y = self.seen(x).permute(0, 3, 1, 2).flatten(2)
        return self.last(self.layer(y)[0]).log_softmax(2)


class Flow(nn.Module):
    """Coupling layers of a normalizing flow, and the logarithm of the determinant."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 8)) for _ in range(3)
        )

    def forward(self, x: Any) -> Any:
        total = 0.0
        for layer in self.layers:
            one, two = x.chunk(2, 1)
            scale, shift = layer(one).chunk(2, 1)
            x = torch.cat([two * scale.tanh().exp() + shift, one], 1)
            total = total + scale.tanh().sum(1)
        return x, total


class Experts(nn.Module):
    """The two best of four experts for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.weights = nn.Parameter(torch.randn(4, 8, 8))

    def forward(self, x: Any) -> Any:
        scores, chosen = self.gate(x).topk(2, -1)
        y = torch.einsum("bnc,bnkcd->bnkd", x, self.weights[chosen])
        return (y * scores.softmax(-1)[..., None]).sum(2)


class Field(nn.Module):
    """A net of positions with their sines, as NeRF has them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(39, 32), nn.Softplus(), nn.Linear(32, 4))

    def forward(self, x: Any) -> Any:
        angles = x[..., None] * 2.0 ** torch.arange(6)
        parts = [x, angles.sin().flatten(-2), angles.cos().flatten(-2)]
        return self.layers(torch.cat(parts, -1))


class Pyramid(nn.Module):
    """A super-resolution net: the picture is added to what the net draws."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.PReLU(16), nn.Conv2d(16, 12, 3, padding=1)
        )

    def forward(self, x: Any) -> Any:
        wide = F.interpolate(x, scale_factor=2.0, mode="bicubic")
        return F.pixel_shuffle(self.layers(x), 2) + wide


ONE = {"x": Input((1, 1, 8))}
LINE = {"x": Input((BATCH, 1, 8, Side("columns", 24, 10, 32)))}
SOUND = {"input_values": Input((BATCH, Side("samples", 400, 320, 640)))}
CONVOLUTIONS = {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3)}
POSITIONS = {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}
SPEECH = SMALL | CONVOLUTIONS | POSITIONS | {"num_feat_extract_layers": 2}
EDGES = {"x": Input((COUNT, 8)), "edges": Input((2, Side("lines", 10, 4, 20)), 2)}
STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "embedding_size": 8}

NETS: dict[str, Net] = {
    # Texts.
    "bert": encoder("Bert"),
    "distilbert": encoder("DistilBert", dim=32, n_layers=2, n_heads=2, hidden_dim=48),
    "roberta": encoder("Roberta"),
    "albert": encoder("Albert", embedding_size=16),
    "electra": encoder("Electra", embedding_size=16),
    "mpnet": encoder("MPNet"),
    "deberta": encoder("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "modernbert": encoder("ModernBert", pad_token_id=0, cls_token_id=1, sep_token_id=2),
    "fnet": encoder("FNet"),
    "squeezebert": encoder("SqueezeBert", embedding_size=32),
    "gpt2": decoder("GPT2", head="LMHeadModel", n_embd=32, n_layer=2, n_head=2, n_positions=32),
    "gpt-neox": decoder("GPTNeoX"),
    # It counts the positions by the values of a tensor, unless a call gives them.
    "opt": decoder("OPT", ffn_dim=48, word_embed_proj_dim=32)._replace(
        step={**STEP, "position_ids": Input((1, 1), 8)}
    ),
    # Its biases have no StaticCache.
    "bloom": decoder("Bloom", n_layer=2, n_head=2)._replace(step=None),
    "llama": decoder("Llama", GROUPED),
    "mistral": with_window(decoder("Mistral", GROUPED, sliding_window=2)),
    "qwen2": decoder("Qwen2", GROUPED),
    "qwen3": decoder("Qwen3", GROUPED),
    "gemma2": with_window(decoder("Gemma2", GROUPED, sliding_window=2)),
    "phi3": decoder("Phi3", GROUPED),
    "falcon": decoder("Falcon"),
    "mixtral": decoder("Mixtral", GROUPED, num_local_experts=4, num_experts_per_tok=2),
    "t5": Net(
        lambda: hf.T5ForConditionalGeneration(
            hf.T5Config(vocab_size=50, d_model=32, d_kv=16, d_ff=48, num_layers=2, num_heads=2)
        ),
        TOKENS | {"decoder_input_ids": Input((BATCH, Side("m", 4, 2, 8)), 50)},
        {"use_cache": False},
    ),
    "bart": Net(
        lambda: hf.BartModel(hf.BartConfig(vocab_size=50, max_position_embeddings=32, **D_MODEL)),
        TOKENS | {"decoder_input_ids": Input((BATCH, Side("m", 4, 2, 8)), 50)},
        {"use_cache": False},
    ),
    "mamba": Net(
        lambda: hf.MambaForCausalLM(hf.MambaConfig(**SMALL, state_size=4)),
        TOKENS,
        {"use_cache": False},
    ),
    "rwkv": Net(
        lambda: hf.RwkvForCausalLM(hf.RwkvConfig(**SMALL, attention_hidden_size=32)),
        TOKENS,
        {"use_cache": False},
    ),
    # Sounds.
    "whisper": Net(
        lambda: hf.WhisperForConditionalGeneration(
            hf.WhisperConfig(
                vocab_size=50,
                num_mel_bins=8,
                max_source_positions=20,
                max_target_positions=16,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
                decoder_start_token_id=1,
                **D_MODEL,
            )
        ),
        {
            "input_features": Input((BATCH, 8, 40)),
            "decoder_input_ids": Input((BATCH, Side("m", 4, 2, 8)), 50),
        },
        {"use_cache": False},
    ),
    "wav2vec2": Net(lambda: hf.Wav2Vec2Model(hf.Wav2Vec2Config(**SPEECH)), SOUND),
    "hubert": Net(lambda: hf.HubertModel(hf.HubertConfig(**SPEECH)), SOUND),
    "ast": Net(
        lambda: hf.ASTModel(
            hf.ASTConfig(**SEEN, num_mel_bins=16, max_length=32, frequency_stride=8, time_stride=8)
        ),
        {"input_values": Input((BATCH, 32, 16))},
    ),
    "encodec": Net(
        lambda: (
            hf.EncodecModel(
                hf.EncodecConfig(
                    num_filters=4, upsampling_ratios=[4, 2], hidden_size=16, codebook_size=16
                )
            ).encoder
        ),
        {"hidden_states": Input((BATCH, 1, Side("samples", 64, 32, 96)))},
    ),
    # Pictures, of transformers.
    "clip": Net(
        lambda: hf.CLIPModel(
            hf.CLIPConfig(
                text_config=SMALL | {"eos_token_id": 2}, vision_config=SEEN, projection_dim=16
            )
        ),
        TOKENS | IMAGES,
    ),
    "vit": viewer("ViT"),
    "dinov2": viewer("Dinov2"),
    "segformer": Net(
        lambda: hf.SegformerForSemanticSegmentation(
            hf.SegformerConfig(
                hidden_sizes=[8, 16, 24, 32],
                depths=[1] * 4,
                num_attention_heads=[1, 1, 2, 2],
                decoder_hidden_size=16,
            )
        ),
        IMAGES,
    ),
    "detr": Net(
        lambda: hf.DetrForObjectDetection(
            hf.DetrConfig(
                use_timm_backbone=False,
                use_pretrained_backbone=False,
                backbone=None,
                backbone_config=hf.ResNetConfig(**STAGES, out_features=["stage4"]),
                num_queries=5,
                **D_MODEL,
            )
        ),
        IMAGES,
    ),
    "yolos": viewer("Yolos", image_size=[32, 32], num_detection_tokens=5),
    # Pictures, of timm.
    "convnext": Net(
        lambda: shaken(
            timm.create_model(
                "convnext_atto", num_classes=10, depths=(1, 1, 1, 1), dims=(8, 16, 24, 32)
            )
        ),
        PICTURES,
    ),
    "swin": image(
        "swin_tiny_patch4_window7_224",
        img_size=32,
        window_size=4,
        embed_dim=16,
        depths=(2, 2),
        num_heads=(2, 2),
    ),
    "efficientnet": image("efficientnet_lite0"),
    "mobilenetv3": image("mobilenetv3_small_050"),
    "mixer": Net(
        lambda: shaken(timm.models.MlpMixer(10, 32, patch_size=8, num_blocks=2, embed_dim=32)),
        PICTURES,
    ),
    "regnet": image("regnetx_002"),
    "poolformer": Net(
        lambda: shaken(
            timm.models.MetaFormer(
                num_classes=10,
                depths=(1, 1, 1, 1),
                dims=(8, 16, 24, 32),
                token_mixers=timm.models.metaformer.Pooling,
            )
        ),
        PICTURES,
    ),
    "beit": image(
        "beit_base_patch16_224", img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=2
    ),
    "maxvit": image("maxvit_rmlp_pico_rw_256", 64, img_size=64, depths=(1, 1), embed_dim=(32, 64)),
    # Pictures, of torchvision.
    "resnet": vision("resnet18", width_per_group=64),
    "mobilenetv2": vision("mobilenet_v2", width_mult=0.25),
    "shufflenet": vision("shufflenet_v2_x0_5"),
    "squeezenet": vision("squeezenet1_1", 64),
    "densenet": Net(lambda: torchvision.models.DenseNet(8, (2, 2), 16, num_classes=10), PICTURES),
    "lraspp": Net(
        lambda: torchvision.models.get_model("lraspp_mobilenet_v3_large", weights_backbone=None),
        {"input": Input((BATCH, 3, 64, 64))},
    ),
    # torch's own.
    "unet": Net(UNet, {"x": Input((BATCH, 3, 16, 16))}),
    "dit": Net(DiT, {"x": Input((BATCH, 4, 16, 16)), "t": Input((BATCH,))}),
    "vae": Net(VAE, {"x": Input((BATCH, 3, 16, 16)), "noise": Input((BATCH, 4, 4, 4))}),
    "lstm": Net(
        lambda: Recurrent(nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)),
        SERIES,
        step=ONE,
        make_step=lambda: Remembering(nn.LSTM(8, 16, 2, batch_first=True), 2),
    ),
    "gru": Net(
        lambda: Recurrent(nn.GRU(8, 16, 2, batch_first=True)),
        SERIES,
        step=ONE,
        make_step=lambda: Remembering(nn.GRU(8, 16, 2, batch_first=True), 1),
    ),
    "transformer": Net(
        Translator,
        {"source": Input((BATCH, COUNT), 50), "target": Input((BATCH, Side("m", 4, 2, 8)), 50)},
    ),
    "dlrm": Net(DLRM, {"x": Input((BATCH, 4)), "indices": Input((BATCH, 3, 2), 20)}),
    "gcn": Net(Graph, EDGES),
    "gat": Net(lambda: Graph(has_attention=True), EDGES),
    "pointnet": Net(PointNet, {"x": Input((BATCH, 3, COUNT))}),
    "wavenet": Net(TCN, {"x": Input((BATCH, 8, COUNT))}),
    "stn": Net(Transformed, {"x": Input((BATCH, 3, 16, 16))}),
    "crnn": Net(Reader, LINE),
    "realnvp": Net(Flow, {"x": Input((BATCH, 8))}),
    "experts": Net(Experts, SERIES),
    "nerf": Net(Field, {"x": Input((COUNT, 3))}),
    "espcn": Net(Pyramid, {"x": Input((BATCH, 3, 8, Side("width", 12, 8, 16)))}),
}
