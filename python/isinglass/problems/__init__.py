"""Problems: frozen, validated, plain arrays. `packing` (maximise under a budget), `qubo` (minimise an energy)."""
