"""The command line, ``evolving-attention``: one module per sub-command."""
