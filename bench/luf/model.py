"""A model with random weights for llama.cpp, as a GGUF file (version 3): the same bytes each time."""

import random
import struct

WIDTH, FORWARD, HEADS, VOCABULARY = 2048, 8192, 16, 256
# Fewer than HEADS, as models of today have it: what a process keeps of the context is not reclaimed.
HEADS_KV = 4
# 33 MiB each: 327 MiB, more than both tiers have left for files, so that each token reads it all from the disk
LAYERS = 10
ALIGN = 32
# GGUF's types of values and ggml's of tensors
U32, F32, STRING = 4, 6, 8
TENSOR_F32, TENSOR_Q4_0 = 0, 2


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def value(key, kind, what):
    return text(key) + struct.pack("<I", kind) + (text(what) if kind == STRING else struct.pack("<I" if kind == U32 else "<f", what))


def metadata():
    return [
        value("general.architecture", STRING, "llama"),
        value("llama.context_length", U32, 512),
        value("llama.embedding_length", U32, WIDTH),
        value("llama.block_count", U32, LAYERS),
        value("llama.feed_forward_length", U32, FORWARD),
        value("llama.attention.head_count", U32, HEADS),
        value("llama.attention.head_count_kv", U32, HEADS_KV),
        value("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        value("llama.vocab_size", U32, VOCABULARY),
        value("tokenizer.ggml.model", STRING, "no_vocab"),
    ]


def tensors():
    """Name, columns, rows (None: a vector)."""
    yield "token_embd.weight", WIDTH, VOCABULARY
    for layer in range(LAYERS):
        name = lambda part: f"blk.{layer}.{part}.weight"
        yield name("attn_norm"), WIDTH, None
        yield name("attn_q"), WIDTH, WIDTH
        yield name("attn_k"), WIDTH, WIDTH // HEADS * HEADS_KV
        yield name("attn_v"), WIDTH, WIDTH // HEADS * HEADS_KV
        yield name("attn_output"), WIDTH, WIDTH
        yield name("ffn_norm"), WIDTH, None
        yield name("ffn_gate"), WIDTH, FORWARD
        yield name("ffn_up"), WIDTH, FORWARD
        yield name("ffn_down"), FORWARD, WIDTH
    yield "output_norm.weight", WIDTH, None
    yield "output.weight", WIDTH, VOCABULARY


def content(columns, rows, draw):
    if rows is None:
        return struct.pack("<f", 1) * columns
    # Blocks of 32 weights: a scale as half a float, then four bits each. With this scale a row keeps the size of what it
    # is multiplied with, and nothing overflows.
    data = bytearray(draw.randbytes(columns // 32 * 18 * rows))
    low, high = struct.pack("<e", columns ** -0.5 / 4.6)
    blocks = columns // 32 * rows
    data[0::18], data[1::18] = bytes([low]) * blocks, bytes([high]) * blocks
    return data


def write(path, seed=1):
    draw, wanted, keys = random.Random(seed), list(tensors()), metadata()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(wanted), len(keys)) + b"".join(keys)
    at = 0
    for name, columns, rows in wanted:
        head += text(name)
        head += struct.pack("<IQ", 1, columns) if rows is None else struct.pack("<IQQ", 2, columns, rows)
        head += struct.pack("<IQ", TENSOR_F32 if rows is None else TENSOR_Q4_0, at)
        size = columns * 4 if rows is None else columns // 32 * 18 * rows
        at += size + -size % ALIGN
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGN))
        for _, columns, rows in wanted:
            data = content(columns, rows, draw)
            file.write(data)
            file.write(bytes(-len(data) % ALIGN))
