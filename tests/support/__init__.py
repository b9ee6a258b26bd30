"""What several tests share: the table of operations and how a case of it is run."""
