"""The data of `evolving-attention demo`: minimal pairs from our own grammar."""
