"""``python -m evolving_attention`` is ``evolving-attention``."""

from evolving_attention.cli.main import main

if __name__ == "__main__":
    main()
