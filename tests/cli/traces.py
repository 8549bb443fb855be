# SPDX-License-Identifier: Apache-2.0
"""Makes traces as docs/formats/trace.md draws them, without the program's own writer."""

import json
import random
import struct

MODEL = {"model": "tiny", "experts": 32, "groups": 8, "layers": 5}
ROWS = [1, 2, 3, 4]
TOP_K = 4


def safetensors(tensors, metadata):
    """A file of {name: (dtype, shape, bytes)}."""
    header, body = {"__metadata__": {key: str(value) for key, value in metadata.items()}}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def trace(domain, choices, tokens, rows=ROWS, **metadata):
    """`choices` holds for every token a choice for each row; `tokens` (phase, request, position)."""
    phases, requests, positions = zip(*tokens, strict=True)
    ids = bytes(expert for token in choices for choice in token for expert in choice)
    count = len(tokens)
    tensors = {
        "layers": ("U32", [len(rows)], struct.pack(f"<{len(rows)}I", *rows)),
        "request": ("U32", [count], struct.pack(f"<{count}I", *requests)),
        "position": ("U32", [count], struct.pack(f"<{count}I", *positions)),
        "topk_ids": ("U8", [count, len(rows), len(choices[0][0])], ids),
        "phase": ("U8", [count], bytes(phases)),
    }
    return safetensors(tensors, {"format": "trimtab.trace/1", "domain": domain, **MODEL, **metadata})


def drawn_choice(random_numbers, hot):
    """Half of the choices fall on the hot experts."""
    chosen = []
    while len(chosen) < TOP_K:
        expert = random_numbers.choice(hot) if random_numbers.random() < 0.5 else random_numbers.randrange(32)
        if expert not in chosen:
            chosen.append(expert)
    return chosen


def drawn_trace(domain, first_hot, num_tokens=600, seed=1):
    """A domain that heats the eight experts from `first_hot` on, in requests of 100 tokens, the first 60 of a prompt."""
    random_numbers = random.Random(seed)
    hot = list(range(first_hot, first_hot + 8))
    choices = [[drawn_choice(random_numbers, hot) for _ in ROWS] for _ in range(num_tokens)]
    return trace(domain, choices, [(int(i % 100 >= 60), i // 100, i % 100) for i in range(num_tokens)])
