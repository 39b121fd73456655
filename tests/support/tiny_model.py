"""A model file of 100 KB that a real runtime loads. It answers everything with the same sentence.

Its only layer does nothing. Each token's embedding points in one of three directions, which decides
the next token: first the sentence, then the end.
"""

import struct
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

SENTENCE = "Hello from a file."
TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
)
WIDTH, HIDDEN, HEADS = 32, 64, 2
CONTEXT = 4096
TEXT, LIST, WHOLE, FRACTION, SIGNED = 8, 9, 4, 6, 5
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
END = 2

Pair = tuple[int, bytes]


def text(said: str) -> bytes:
    return struct.pack("<Q", len(said.encode())) + said.encode()


def a_text(said: str) -> Pair:
    return TEXT, text(said)


def whole(number: int) -> Pair:
    return WHOLE, struct.pack("<I", number)


def fraction(number: float) -> Pair:
    return FRACTION, struct.pack("<f", number)


def a_list(kind: int, items: Sequence[bytes]) -> Pair:
    return LIST, struct.pack("<IQ", kind, len(items)) + b"".join(items)


def header(pairs: Mapping[str, Pair], tensors: Sequence[tuple[str, Sequence[int], int]]) -> bytes:
    """The beginning of a file. Tensors have a name, dimensions and an offset."""
    reported = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs))
    for key, (kind, value) in pairs.items():
        reported += text(key) + struct.pack("<I", kind) + value
    for name, dimensions, offset in tensors:
        reported += text(name) + struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
        reported += struct.pack("<IQ", 0, offset)
    return reported


def facts(more: Mapping[str, Pair] | None = None) -> dict[str, Pair]:
    """What a header says before the vocabulary."""
    return {
        "general.architecture": a_text("llama"),
        "general.name": a_text("Tiny"),
        "llama.context_length": whole(CONTEXT),
        "llama.embedding_length": whole(WIDTH),
        "llama.block_count": whole(1),
        "llama.feed_forward_length": whole(HIDDEN),
        "llama.attention.head_count": whole(HEADS),
        "llama.rope.dimension_count": whole(WIDTH // HEADS),
        "llama.attention.layer_norm_rms_epsilon": fraction(1e-5),
        **(more or {}),
    }


def tiny_model(path: Path, says: str = SENTENCE) -> Path:
    """Write the model file."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), says]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, NORMAL]
    pairs = {
        **facts(),
        "tokenizer.ggml.model": a_text("llama"),
        "tokenizer.ggml.tokens": a_list(TEXT, [text(word) for word in words]),
        "tokenizer.ggml.scores": a_list(FRACTION, [struct.pack("<f", 0)] * len(words)),
        "tokenizer.ggml.token_type": a_list(SIGNED, [struct.pack("<i", kind) for kind in kinds]),
        "tokenizer.ggml.bos_token_id": whole(1),
        "tokenizer.ggml.eos_token_id": whole(END),
        "tokenizer.chat_template": a_text(TEMPLATE),
    }
    count, said = len(words), len(words) - 1
    directions = [_row(1 if token == said else 0) for token in range(count)]
    following = [[0.0] * WIDTH for _ in range(count)]
    following[said] = _row(0, 20.0)
    following[END] = _row(1, 20.0)
    weights = {
        "token_embd.weight": ((WIDTH, count), list(chain(*directions))),
        "output.weight": ((WIDTH, count), list(chain(*following))),
        **{
            name: ((WIDTH,), [1.0] * WIDTH)
            for name in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight")
        },
        **{
            f"blk.0.{name}.weight": ((rows, columns), [0.0] * (rows * columns))
            for name, rows, columns in (
                ("attn_q", WIDTH, WIDTH),
                ("attn_k", WIDTH, WIDTH),
                ("attn_v", WIDTH, WIDTH),
                ("attn_output", WIDTH, WIDTH),
                ("ffn_gate", WIDTH, HIDDEN),
                ("ffn_up", WIDTH, HIDDEN),
                ("ffn_down", HIDDEN, WIDTH),
            )
        },
    }
    tensors, data = [], b""
    for name, (dimensions, values) in weights.items():
        tensors.append((name, dimensions, len(data)))
        data += _aligned(struct.pack(f"<{len(values)}f", *values))
    path.write_bytes(_aligned(header(pairs, tensors)) + data)
    return path


def _row(direction: int, size: float = 1.0) -> list[float]:
    return [size if place == direction else 0.0 for place in range(WIDTH)]


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % 32)
