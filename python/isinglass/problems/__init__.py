"""Problems: frozen, validated, plain arrays. `packing` and `evidence` maximise, `qubo` minimises."""
