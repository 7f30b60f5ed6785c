"""What exit policies are worth: agreement with the whole model against the share of tokens that go deep."""
