"""A DFlash drafter for transformers: AutoModel.from_pretrained(DIR, trust_remote_code=True).

The drafter reads the outputs of some of the target's layers (config.dflash_config["target_layer_ids"]: i means the output
of layer i, counted from 0) and proposes the block_size - 1 tokens that follow a known one. Embedding and output head are
the target's. One sequence at a time.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn
from transformers import DynamicCache, PreTrainedModel, Qwen3Config


def rotary_frequencies(config):
    """Inverse frequencies [head_dim / 2] in float32 and the factor of cosine and sine."""
    rope = dict(getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {})
    theta = rope.get("rope_theta") or config.rope_theta
    kind, dim = rope.get("rope_type", "default"), config.head_dim
    steps = torch.arange(0, dim, 2, dtype=torch.float32)
    inv = 1.0 / theta ** (steps / dim)
    if kind == "default":
        return inv, 1.0
    factor, original = rope["factor"], rope.get("original_max_position_embeddings")
    if kind == "linear":
        return inv / factor, 1.0
    if kind == "llama3":
        turns = original * inv / (2 * math.pi)
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        keep = ((turns - low) / (high - low)).clamp(0, 1)
        return (1 - keep) * inv / factor + keep * inv, 1.0
    if kind == "yarn":
        bound = lambda turns: dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))
        low, high = bound(rope["beta_fast"]), bound(rope["beta_slow"])
        if rope.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        stretch = ((steps / 2 - low) / max(high - low, 0.001)).clamp(0, 1)
        return inv / factor * stretch + inv * (1 - stretch), rope["attention_factor"]
    raise ValueError(f"rope_type {kind!r} is not supported")


def rotate(x, cos, sin):
    """x [heads, T, head_dim]; cos, sin [T, head_dim / 2]."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        y = x.float()
        return self.weight * (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, config, window):
        super().__init__()
        hidden, dim, bias = config.hidden_size, config.head_dim, config.attention_bias
        heads, kv = config.num_attention_heads, config.num_key_value_heads
        self.dim, self.groups, self.window = dim, heads // kv, window
        self.q_proj = nn.Linear(hidden, heads * dim, bias=bias)
        self.k_proj = nn.Linear(hidden, kv * dim, bias=bias)
        self.v_proj = nn.Linear(hidden, kv * dim, bias=bias)
        self.o_proj = nn.Linear(heads * dim, hidden, bias=bias)
        self.q_norm, self.k_norm = RMSNorm(dim, config.rms_norm_eps), RMSNorm(dim, config.rms_norm_eps)

    def keys(self, x, cos, sin):
        """Keys and values [kv heads, T, head_dim] of context or block rows [T, hidden]."""
        k = self.k_norm(self.k_proj(x).unflatten(-1, (-1, self.dim))).transpose(0, 1)
        v = self.v_proj(x).unflatten(-1, (-1, self.dim)).transpose(0, 1)
        return rotate(k, cos, sin), v

    def forward(self, x, context, cos, sin):
        size, past = x.shape[0], context[0].shape[1]
        q = rotate(self.q_norm(self.q_proj(x).unflatten(-1, (-1, self.dim))).transpose(0, 1), cos, sin)
        k, v = (torch.cat(pair, 1).repeat_interleave(self.groups, 0) for pair in zip(context, self.keys(x, cos, sin)))
        mask = None
        if self.window:  # a slot sees the window before it, and of its block only what is not after it
            slot, seen = torch.arange(size, device=x.device)[:, None] + past, torch.arange(past + size, device=x.device)
            mask = (seen <= slot) & ((seen > slot - self.window) | (seen >= past))
        o = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0]
        return self.o_proj(o.transpose(0, 1).flatten(1))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, wide = config.hidden_size, config.intermediate_size
        self.gate_proj, self.up_proj = nn.Linear(hidden, wide, bias=False), nn.Linear(hidden, wide, bias=False)
        self.down_proj = nn.Linear(wide, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config, window):
        super().__init__()
        self.self_attn, self.mlp = Attention(config, window), MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x, context, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), context, cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class DFlashDraftModel(PreTrainedModel):
    config_class = Qwen3Config
    _no_split_modules = ["Layer"]

    def __init__(self, config):
        super().__init__(config)
        self.block_size = config.block_size
        self.mask_token_id = config.dflash_config["mask_token_id"]
        self.target_layer_ids = list(config.dflash_config["target_layer_ids"])
        target_hidden = getattr(config, "target_hidden_size", config.hidden_size)
        windows = [config.sliding_window if t == "sliding_attention" else None for t in config.layer_types]
        self.fc = nn.Linear(len(self.target_layer_ids) * target_hidden, config.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.layers = nn.ModuleList(Layer(config, w) for w in windows)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_init()

    def angles(self, start, stop, like):
        """Cosine and sine [stop - start, head_dim / 2] of positions, in the type of like."""
        inv, factor = rotary_frequencies(self.config)
        a = torch.arange(start, stop, dtype=torch.float32)[:, None] * inv
        return tuple((f * factor).to(like.device, like.dtype) for f in (a.cos(), a.sin()))

    def extend(self, context, captures):
        """Appends captures [T, taps * target hidden] of committed tokens to a context: per layer (keys, values), or None."""
        c = self.hidden_norm(self.fc(captures))
        past = context[0][0].shape[1] if context else 0
        cos, sin = self.angles(past, past + c.shape[0], c)
        new = [layer.self_attn.keys(c, cos, sin) for layer in self.layers]
        if not context:
            return new
        return [tuple(torch.cat(pair, 1) for pair in zip(*both)) for both in zip(context, new)]

    def forward(self, embeddings, context):
        """embeddings [B, hidden] of the known token and the mask tokens; returns [B, hidden], to be fed to the target's head."""
        past = context[0][0].shape[1]
        cos, sin = self.angles(past, past + embeddings.shape[0], embeddings)
        x = embeddings
        for layer, seen in zip(self.layers, context):
            x = layer(x, seen, cos, sin)
        return self.norm(x)

    @torch.inference_mode()
    def generate_with(self, target, input_ids, max_new_tokens=160, stop_token_ids=()):
        """Decodes input_ids [1, T] greedily with a target. Returns the new ids and the tokens that each round emitted."""
        embed, head = target.get_input_embeddings(), target.get_output_embeddings()
        cache, context = DynamicCache(), None

        def verify(ids):
            out = target(ids, past_key_values=cache, use_cache=True, output_hidden_states=True)
            captures = torch.cat([out.hidden_states[i + 1][0] for i in self.target_layer_ids], -1)
            return out.logits[0].argmax(-1), captures.to(self.dtype)

        choice, captures = verify(input_ids)
        context = self.extend(context, captures)
        output, rounds = [int(choice[-1])], []
        news = output
        while len(output) < max_new_tokens and not any(i in stop_token_ids for i in news):
            block = torch.full((self.block_size,), self.mask_token_id, device=input_ids.device)
            block[0] = output[-1]
            block[1:] = head(self(embed(block).to(self.dtype), context)[1:].to(head.weight.dtype)).argmax(-1)
            choice, captures = verify(block[None])
            accepted = int((block[1:] == choice[:-1]).cumprod(0).sum())
            news = choice[: accepted + 1].tolist()
            output, rounds = output + news, rounds + [len(news)]
            if accepted + 1 < self.block_size:
                cache.crop(accepted + 1 - self.block_size)  # negative: so many are taken off
            context = self.extend(context, captures[: accepted + 1])
        return output, rounds
