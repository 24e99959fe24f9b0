"""Jobs: hosts that are provisioned together, shared by clients, and ended together."""
