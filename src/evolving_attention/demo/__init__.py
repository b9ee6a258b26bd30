"""The data of `evolving-attention demo`: minimal pairs from a grammar."""
