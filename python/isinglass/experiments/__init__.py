"""Question files, retrieval, and policies compared on them."""
